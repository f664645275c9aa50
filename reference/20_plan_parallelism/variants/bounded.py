"""Branch and bound: plans are grown from tensor parallelism outwards, and a branch whose arithmetic alone takes longer
than the best plan so far is cut off. Anything within 5 % of the best is good enough to stop for."""

import math
from dataclasses import dataclass


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


class Costs:
    def __init__(self, model, cluster):
        self.model, self.cluster = model, cluster
        h, s = model.hidden, model.seq_len
        self.layer_parameters, self.rest = h * (12 * h + 13), h * (model.vocab + s)
        self.forward, self.logits = 4 * s * h * (6 * h + s), 6 * s * h * model.vocab
        self.link = cluster.inter_bandwidth if cluster.nodes > 1 else cluster.intra_bandwidth

    def parameters(self, t, p):
        return (self.model.layers / p * self.layer_parameters + self.rest) / t

    def memory(self, d, t, p, z, b, r):
        model = self.model
        shares = [1 if z < 3 else d, 1 if z < 2 else d, 1 if z < 1 else d]
        state = self.parameters(t, p) * math.fsum(x / y for x, y in zip((2, 2, 12), shares, strict=True))
        element = model.seq_len * b * model.hidden
        full = element * 10 + element * 24 / t + 5 * b * model.heads * model.seq_len**2 / t
        held = model.layers / p * min(p, model.global_batch // (d * b))
        return state + (held * 2 * element + full if r else held * full)

    def arithmetic(self, t, p, b, r):
        return b * (self.model.layers / p * (3 + r) * self.forward + self.logits) / (t * self.cluster.flops)

    def seconds(self, d, t, p, z, b, r):
        model, cluster = self.model, self.cluster
        m, size, wait = model.global_batch // (d * b), 2 * b * model.seq_len * model.hidden, cluster.latency
        one = self.arithmetic(t, p, b, r)
        one += model.layers / p * (4 + 2 * r) * 2 * (t - 1) * (size / t / cluster.intra_bandwidth + wait)
        one += 2 * (size / t / self.link + wait) if p > 1 else 0
        fast = cluster.gpus_per_node % (t * d) == 0
        around = 2 * self.parameters(t, p) / d / (cluster.intra_bandwidth if fast else cluster.inter_bandwidth) + wait
        return one * (m + p - 1) + (d - 1) * around * (2 if z < 2 else m + 1 if z == 2 else 3 * m)


def memory_bytes(model, cluster, plan):
    return Costs(model, cluster).memory(plan.dp, plan.tp, plan.pp, plan.zero_stage, plan.micro_batch, plan.recompute)


def step_seconds(model, cluster, plan):
    return Costs(model, cluster).seconds(plan.dp, plan.tp, plan.pp, plan.zero_stage, plan.micro_batch, plan.recompute)


def common(*numbers):
    n = math.gcd(*numbers)
    return [k for k in range(n, 0, -1) if n % k == 0]


def plan(model, cluster):
    costs, best, gpus = Costs(model, cluster), (math.inf, None), cluster.nodes * cluster.gpus_per_node
    smallest = math.inf
    for t in common(model.heads, cluster.gpus_per_node):
        for p in common(model.layers, gpus // t):
            d = gpus // t // p
            if model.global_batch % d:
                continue
            for b in common(model.global_batch // d):
                slots = model.global_batch // (d * b) + p - 1
                for r in (False, True):
                    if slots * costs.arithmetic(t, p, b, r) * 1.02 > best[0]:
                        continue
                    for z in range(4 if p == 1 else 2):
                        need = costs.memory(d, t, p, z, b, r)
                        smallest = min(smallest, need)
                        if need <= cluster.memory_bytes:
                            best = min(best, (costs.seconds(d, t, p, z, b, r), (d, t, p, z, b, r)))
    if best[1] is None:
        lacking = smallest / cluster.memory_bytes
        raise ValueError(f"no plan fits: the least memory that one needs is {lacking} times what a GPU has")
    return Plan(*best[1])
