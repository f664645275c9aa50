"""Leaves out what another choice beats anyway: stage 0 by stage 1, recomputation where all can be kept."""

from dataclasses import dataclass, replace
from math import gcd


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


def count(model, plan):
    return model.global_batch // (plan.dp * plan.micro_batch)


def psi(model, plan):
    h = model.hidden
    stage = (model.layers // plan.pp) * h * (12 * h + 13) + (model.vocab + model.seq_len) * h
    return stage / plan.tp


def one_layer(model, plan):
    tokens = model.seq_len * plan.micro_batch
    return tokens * (10 * model.hidden + (24 * model.hidden + 5 * model.heads * model.seq_len) / plan.tp)


def memory_bytes(model, cluster, plan):
    share = {0: 16, 1: 4 + 12 / plan.dp, 2: 2 + 14 / plan.dp, 3: 16 / plan.dp}[plan.zero_stage]
    depth = model.layers // plan.pp * min(plan.pp, count(model, plan))
    if plan.recompute:
        return (
            share * psi(model, plan)
            + depth * 2 * model.seq_len * plan.micro_batch * model.hidden
            + one_layer(model, plan)
        )
    return share * psi(model, plan) + depth * one_layer(model, plan)


def step_seconds(model, cluster, plan):
    return slots(model, plan) * slot_seconds(model, cluster, plan) + replica_seconds(model, cluster, plan)


def slots(model, plan):
    return count(model, plan) + plan.pp - 1


def slot_seconds(model, cluster, plan):
    h, s, tokens, layers = model.hidden, model.seq_len, plan.micro_batch * model.seq_len, model.layers // plan.pp
    forward = tokens * h * (24 * h + 4 * s) * layers
    flop = forward * (4 if plan.recompute else 3) + 6 * tokens * h * model.vocab
    rings = layers * (6 if plan.recompute else 4) * 2 * (plan.tp - 1)
    ring_part = 2 * tokens * h / plan.tp
    total = flop / (plan.tp * cluster.flops) + rings * (ring_part / cluster.intra_bandwidth + cluster.latency)
    if plan.pp > 1:
        slow = cluster.inter_bandwidth if cluster.nodes > 1 else cluster.intra_bandwidth
        total += 2 * (ring_part / slow + cluster.latency)
    return total


def replica_seconds(model, cluster, plan):
    m = count(model, plan)
    hops = (plan.dp - 1) * (2, 2, m + 1, 3 * m)[plan.zero_stage]
    near = not cluster.gpus_per_node % (plan.tp * plan.dp)
    bandwidth = cluster.intra_bandwidth if near else cluster.inter_bandwidth
    return hops * (2 * psi(model, plan) / plan.dp / bandwidth + cluster.latency)


def plan(model, cluster):
    best, quickest, least = None, float("inf"), float("inf")
    gpus = cluster.nodes * cluster.gpus_per_node
    for t in range(1, gcd(model.heads, cluster.gpus_per_node) + 1):
        for p in range(1, model.layers + 1):
            d, rest = divmod(gpus, t * p)
            if rest or model.heads % t or cluster.gpus_per_node % t or model.layers % p or model.global_batch % d:
                continue
            for b in range(1, model.global_batch // d + 1):
                if model.global_batch // d % b:
                    continue
                for z in (1,) if p > 1 else (1, 2, 3):
                    kept = Plan(d, t, p, z, b, False)
                    for candidate in (kept, replace(kept, recompute=True)):
                        need = memory_bytes(model, cluster, candidate)
                        least = min(least, need)
                        if need <= cluster.memory_bytes:
                            seconds = step_seconds(model, cluster, candidate)
                            if seconds < quickest:
                                best, quickest = candidate, seconds
                            break  # recomputation is slower
    if best is None:
        raise ValueError(f"no legal plan fits; the smallest needs {least} bytes a GPU")
    return best
