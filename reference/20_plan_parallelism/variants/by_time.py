"""Orders all plans by their time, and takes the first that fits; the costs are lists of terms that are added up."""

import itertools
from dataclasses import astuple, dataclass


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


def unpack(model, plan):
    return *astuple(model), *astuple(plan), model.global_batch // plan.dp // plan.micro_batch


def memory_terms(model, plan):
    L, h, a, s, V, _, d, t, p, z, b, r, m = unpack(model, plan)
    psi = L * (12 * h * h + 13 * h) / p / t + (V + s) * h / t
    yield 12 * psi / (d if z >= 1 else 1)
    yield 2 * psi / (d if z >= 2 else 1)
    yield 2 * psi / (d if z >= 3 else 1)
    layer = 10 * s * b * h + 24 * s * b * h / t + 5 * a * s * s * b / t
    waiting = L // p * min(p, m)
    if r:
        yield waiting * 2 * s * b * h
        yield layer
    else:
        yield waiting * layer


def memory_bytes(model, cluster, plan):
    return sum(memory_terms(model, plan))


def time_terms(model, cluster, plan):
    L, h, _, s, V, _, d, t, p, z, b, r, m = unpack(model, plan)
    slots, forwards = m + p - 1, 4 if r else 3
    yield slots * L / p * forwards * 24 * b * s * h * h / t / cluster.flops
    yield slots * L / p * forwards * 4 * b * s * s * h / t / cluster.flops
    yield slots * 6 * b * s * h * V / t / cluster.flops
    all_reduces = slots * L / p * (6 if r else 4)
    yield all_reduces * 2 * (t - 1) * (2 * b * s * h / t / cluster.intra_bandwidth + cluster.latency)
    if p > 1:
        slow = cluster.inter_bandwidth if cluster.nodes > 1 else cluster.intra_bandwidth
        yield slots * 2 * cluster.latency
        yield slots * 4 * b * s * h / (t * slow)
    psi = (L / p * (12 * h * h + 13 * h) + (V + s) * h) / t
    gathers, reduces = [(1, 1), (1, 1), (1, m), (2 * m, m)][z]
    inside = cluster.gpus_per_node % (t * d) == 0
    piece = 2 * psi / d / (cluster.intra_bandwidth if inside else cluster.inter_bandwidth) + cluster.latency
    yield (gathers + reduces) * (d - 1) * piece


def step_seconds(model, cluster, plan):
    return sum(time_terms(model, cluster, plan))


def factors(n):
    return sorted({k for i in range(1, int(n**0.5) + 1) if n % i == 0 for k in (i, n // i)})


def plans(model, cluster):
    gpus = cluster.nodes * cluster.gpus_per_node
    for t, p in itertools.product(factors(cluster.gpus_per_node), factors(model.layers)):
        if model.heads % t or gpus % (t * p) or model.global_batch % (gpus // t // p):
            continue
        d = gpus // t // p
        for b, z, r in itertools.product(factors(model.global_batch // d), range(4), (False, True)):
            if p == 1 or z < 2:
                yield Plan(d, t, p, z, b, r)


def plan(model, cluster):
    every = sorted(plans(model, cluster), key=lambda one: step_seconds(model, cluster, one))
    for one in every:
        if memory_bytes(model, cluster, one) <= cluster.memory_bytes:
            return one
    least = min((memory_bytes(model, cluster, one) for one in every), default=None)
    if least is None:
        raise ValueError("the sizes have no common divisors that would give a plan")
    raise ValueError(f"memory is short by {least - cluster.memory_bytes:.0f} bytes")
