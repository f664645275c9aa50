"""Ranks are laid out as a grid, and which link a group uses is read off the ranks themselves."""

from dataclasses import dataclass
from functools import lru_cache


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


@lru_cache(maxsize=4096)
def within_a_node(d, t, p, nodes, per_node):
    """Whether no replicas are on different nodes. Rank (stage, replica, part) is (stage · d + replica) · t + part."""
    if d * t > per_node:
        return d == 1
    for stage in range(p):
        if stage * d * t // per_node != ((stage * d + d - 1) * t) // per_node:
            return False
    return True


@lru_cache(maxsize=4096)
def neighbours_in_a_node(d, t, p, per_node):
    """Whether no two neighbouring stages are on different nodes."""
    return all(s * d * t // per_node == (s + 1) * d * t // per_node for s in range(p - 1))


def sizes(model, plan):
    stage = model.layers / plan.pp * (12 * model.hidden**2 + 13 * model.hidden)
    parameters = (stage + (model.vocab + model.seq_len) * model.hidden) / plan.tp
    return parameters, plan.micro_batch * model.seq_len * model.hidden, model.global_batch / plan.dp / plan.micro_batch


def memory_bytes(model, cluster, plan):
    parameters, elements, m = sizes(model, plan)
    total = 0.0
    for stage, size in ((3, 2), (2, 2), (1, 12)):
        total += parameters * size / (plan.dp if plan.zero_stage >= stage else 1)
    layer = elements * (10 + 24 / plan.tp + 5 * model.heads * model.seq_len / model.hidden / plan.tp)
    for _ in range(int(min(plan.pp, m))):
        total += model.layers / plan.pp * (2 * elements if plan.recompute else layer)
    return total + layer * plan.recompute


def step_seconds(model, cluster, plan):
    parameters, elements, m = sizes(model, plan)
    layers, h = model.layers / plan.pp, model.hidden
    flop = layers * elements * (24 * h + 4 * model.seq_len) * (4 if plan.recompute else 3)
    stage = (flop + 6 * elements * model.vocab) / (cluster.flops * plan.tp)
    if plan.tp > 1:
        times = layers * (6 if plan.recompute else 4)
        stage += times * 2 * (plan.tp - 1) * (2 * elements / plan.tp / cluster.intra_bandwidth + cluster.latency)
    if plan.pp > 1:
        near = neighbours_in_a_node(plan.dp, plan.tp, plan.pp, cluster.gpus_per_node)
        bandwidth = cluster.intra_bandwidth if near else cluster.inter_bandwidth
        stage += 2 * (2 * elements / plan.tp / bandwidth + cluster.latency)
    step = (m + plan.pp - 1) * stage
    if plan.dp > 1:
        near = within_a_node(plan.dp, plan.tp, plan.pp, cluster.nodes, cluster.gpus_per_node)
        bandwidth = cluster.intra_bandwidth if near else cluster.inter_bandwidth
        one = (plan.dp - 1) * (2 * parameters / plan.dp / bandwidth + cluster.latency)
        step += one * [2, 2, m + 1, 3 * m][plan.zero_stage]
    return step


def divisors(n):
    found = [1]
    prime = 2
    while n > 1:
        powers = [1]
        while n % prime == 0:
            n //= prime
            powers.append(powers[-1] * prime)
        found = [x * y for x in found for y in powers]
        prime += 1
    return found


def plan(model, cluster):
    gpus, best, needs = cluster.nodes * cluster.gpus_per_node, None, []
    for d in divisors(gpus):
        if model.global_batch % d:
            continue
        for t in divisors(gpus // d):
            p = gpus // d // t
            if cluster.gpus_per_node % t or model.heads % t or model.layers % p:
                continue
            for b in divisors(model.global_batch // d):
                for number in range(8 if p == 1 else 4):
                    candidate = Plan(d, t, p, number // 2, b, number % 2 == 1)
                    needs.append(memory_bytes(model, cluster, candidate))
                    if needs[-1] <= cluster.memory_bytes:
                        seconds = step_seconds(model, cluster, candidate)
                        if best is None or seconds < best[0]:
                            best = seconds, candidate
    if best is None:
        raise ValueError(f"does not fit, whatever the plan ({len(needs)} were tried)")
    return best[1]
