"""All plans at once, as arrays; the cost functions are the same for one plan and for many."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ModelSpec:
    layers: int
    hidden: int
    heads: int
    seq_len: int
    vocab: int
    global_batch: int


@dataclass(frozen=True)
class ClusterSpec:
    nodes: int
    gpus_per_node: int
    memory_bytes: float
    flops: float
    intra_bandwidth: float
    inter_bandwidth: float
    latency: float


@dataclass(frozen=True)
class Plan:
    dp: int
    tp: int
    pp: int
    zero_stage: int
    micro_batch: int
    recompute: bool


def columns(model, plan):
    d, t, p, z, b, r = (np.asarray(getattr(plan, name)) for name in Plan.__dataclass_fields__)
    return d, t, p, z, b, r.astype(int), model.global_batch // (d * b)


def parameters(model, t, p):
    layer = 12 * model.hidden**2 + 13 * model.hidden
    return (layer * model.layers / p + model.hidden * (model.vocab + model.seq_len)) / t


def memory_bytes(model, cluster, plan):
    d, t, p, z, b, r, m = columns(model, plan)
    per_parameter = np.select([z == 0, z == 1, z == 2], [16 + 0 / d, 4 + 12 / d, 2 + 14 / d], 16 / d)
    sbh = model.seq_len * b * model.hidden
    whole = sbh * (10 + 24 / t) + 5 * model.heads * model.seq_len**2 * b / t
    kept = np.where(r == 1, 2 * sbh, whole)
    total = per_parameter * parameters(model, t, p) + model.layers / p * np.minimum(p, m) * kept + r * whole
    return total if total.ndim else float(total)


def step_seconds(model, cluster, plan):
    d, t, p, z, b, r, m = columns(model, plan)
    h, s = model.hidden, model.seq_len
    bsh, layers = b * s * h, model.layers / p
    compute = (layers * (3 + r) * bsh * (24 * h + 4 * s) + 6 * bsh * model.vocab) / t / cluster.flops
    all_reduce = 4 * bsh * (t - 1) / t / cluster.intra_bandwidth + 2 * (t - 1) * cluster.latency
    between = cluster.intra_bandwidth if cluster.nodes == 1 else cluster.inter_bandwidth
    message = np.where(p > 1, 4 * bsh / t / between + 2 * cluster.latency, 0)
    link = np.where(cluster.gpus_per_node % (t * d) == 0, cluster.intra_bandwidth, cluster.inter_bandwidth)
    rounds = np.select([z < 2, z == 2], [2, m + 1], 3 * m)
    data = rounds * (2 * parameters(model, t, p) * (d - 1) / d / link + (d - 1) * cluster.latency)
    total = (m + p - 1) * (compute + layers * (4 + 2 * r) * all_reduce + message) + data
    return total if total.ndim else float(total)


def dividing(number):
    every = np.arange(1, number + 1)
    return every[number % every == 0].tolist()


def plan(model, cluster):
    gpus = cluster.nodes * cluster.gpus_per_node
    rows = [
        (gpus // (t * p), t, p, z, b, r)
        for t in dividing(cluster.gpus_per_node)
        if model.heads % t == 0
        for p in dividing(model.layers)
        if gpus % (t * p) == 0 and model.global_batch % (gpus // (t * p)) == 0
        for b in dividing(model.global_batch // (gpus // (t * p)))
        for z in (range(4) if p == 1 else (0, 1))
        for r in (0, 1)
    ]
    if not rows:
        raise ValueError("these GPUs cannot share the model: no plan is legal")
    every = Plan(*np.array(rows).T)
    memory, seconds = memory_bytes(model, cluster, every), step_seconds(model, cluster, every)
    seconds[memory > cluster.memory_bytes] = np.inf
    best = int(seconds.argmin())
    if not np.isfinite(seconds[best]):
        raise ValueError(f"needs {memory.min():.4g} bytes a GPU at least, and there are {cluster.memory_bytes:.4g}")
    d, t, p, z, b, r = rows[best]
    return Plan(d, t, p, z, b, bool(r))
