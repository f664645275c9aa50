"""What a training step costs in memory and in time under a parallel plan, and the best plan there is.

Symbols as in README.md: L layers of width h with a heads, sequences of s tokens, V words, B sequences a step; d data
parallel replicas, each of p pipeline stages of t tensor parallel GPUs; micro-batches of b sequences, m of them a step.

Sources: the parameters, the time and the pipeline from Narayanan et al. 2021, the state of Adam from Rajbhandari et al.
2020 (ZeRO), the activations from Korthikanti et al. 2022.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, isqrt


@dataclass(frozen=True)
class ModelSpec:
    """A transformer like GPT, and the sequences of one optimizer step."""

    layers: int
    hidden: int
    heads: int
    seq_len: int
    vocab: int
    global_batch: int


@dataclass(frozen=True)
class ClusterSpec:
    """Equal nodes of equal GPUs: bytes, FLOP/s, bytes/s, seconds."""

    nodes: int
    gpus_per_node: int
    memory_bytes: float
    flops: float
    intra_bandwidth: float
    inter_bandwidth: float
    latency: float


@dataclass(frozen=True)
class Plan:
    """How the GPUs share the work."""

    dp: int
    tp: int
    pp: int
    zero_stage: int
    micro_batch: int
    recompute: bool


def stage_parameters(model: ModelSpec, plan: Plan) -> float:
    """Ψ: the parameters of a GPU of the first stage, which holds the embeddings beside its layers."""
    L, h = model.layers, model.hidden
    return (L / plan.pp * (12 * h**2 + 13 * h) + (model.vocab + model.seq_len) * h) / plan.tp


def micro_batches(model: ModelSpec, plan: Plan) -> int:
    """m: how many micro-batches a replica has in one step."""
    return model.global_batch // (plan.dp * plan.micro_batch)


def memory_bytes(model: ModelSpec, cluster: ClusterSpec, plan: Plan) -> float:
    """Bytes on the fullest GPU, one of the first stage: the model's state, and activations that wait for backward."""
    # Parameter and gradient in 16 bits, 12 bytes of Adam. Stage z shards the last z of the three: first the optimizer's
    # state, then the gradients, then the parameters.
    whole = (2, 2, 12)[: 3 - plan.zero_stage]
    sharded = (2, 2, 12)[3 - plan.zero_stage :]
    state = (sum(whole) + sum(sharded) / plan.dp) * stage_parameters(model, plan)

    # One layer keeps 34 bytes for each element of its input, of which 10 are on every tensor parallel GPU, and the
    # attention's matrices, 5 bytes for each pair of tokens and head.
    s, b, h, t = model.seq_len, plan.micro_batch, model.hidden, plan.tp
    layer = s * b * h * (10 + 24 / t + 5 * model.heads * s / (h * t))
    kept = 2 * s * b * h if plan.recompute else layer
    # The first stage starts p micro-batches (or all, if there are fewer) before the first one comes back.
    in_flight = min(plan.pp, micro_batches(model, plan))
    activations = model.layers / plan.pp * in_flight * kept
    if plan.recompute:
        activations += layer  # the one that is being recomputed
    return state + activations


def step_seconds(model: ModelSpec, cluster: ClusterSpec, plan: Plan) -> float:
    """Seconds of one optimizer step, nothing overlapped."""
    L, h, s = model.layers, model.hidden, model.seq_len
    d, t, p, b, m = plan.dp, plan.tp, plan.pp, plan.micro_batch, micro_batches(model, plan)
    alpha, r = cluster.latency, int(plan.recompute)

    # Compute of one micro-batch on the last stage, which has the logits beside its layers. Backward is twice forward.
    flop = L / p * (3 + r) * (24 * b * s * h**2 + 4 * b * s**2 * h) + 6 * b * s * h * model.vocab
    compute = flop / (t * cluster.flops)

    # Two all-reduces of the activations a layer in forward, two in backward, two in a recomputed forward, on a ring.
    message = 2 * b * s * h
    ring = 2 * (t - 1) / t * message / cluster.intra_bandwidth + 2 * (t - 1) * alpha
    tensor = L / p * (4 + 2 * r) * ring

    # To the next stage and back, each of the t GPUs its part.
    link = cluster.intra_bandwidth if cluster.nodes == 1 else cluster.inter_bandwidth
    pipeline = 2 * (message / t / link + alpha) if p > 1 else 0.0

    # Gradients once a step up to stage 1. Sharded gradients are reduced with each micro-batch, sharded parameters
    # gathered for each forward and each backward.
    passes = {0: 2, 1: 2, 2: m + 1, 3: 3 * m}[plan.zero_stage]
    link = cluster.intra_bandwidth if cluster.gpus_per_node % (t * d) == 0 else cluster.inter_bandwidth
    one_pass = (d - 1) / d * 2 * stage_parameters(model, plan) / link + (d - 1) * alpha

    # m micro-batches, and p - 1 more until the last stage has the first one: the bubble.
    return (m + p - 1) * (compute + tensor + pipeline) + passes * one_pass


def divisors(number: int) -> list[int]:
    """In ascending order; looked for up to the root only."""
    low = [k for k in range(1, isqrt(number) + 1) if number % k == 0]
    return low + [number // k for k in reversed(low) if k * k != number]


def legal_plans(model: ModelSpec, cluster: ClusterSpec) -> Iterator[Plan]:
    """All of them: a few thousand even for 16,384 GPUs, since everything divides something."""
    gpus = cluster.nodes * cluster.gpus_per_node
    for t in divisors(gcd(model.heads, cluster.gpus_per_node)):
        for p in divisors(gcd(model.layers, gpus // t)):
            d = gpus // (t * p)
            if model.global_batch % d:
                continue
            for b in divisors(model.global_batch // d):
                for z in range(4 if p == 1 else 2):
                    yield Plan(d, t, p, z, b, False)
                    yield Plan(d, t, p, z, b, True)


def plan(model: ModelSpec, cluster: ClusterSpec) -> Plan:
    """The fastest of all legal plans that fit."""
    needs = [(memory_bytes(model, cluster, candidate), candidate) for candidate in legal_plans(model, cluster)]
    if not needs:
        raise ValueError(f"no plan divides {model} among {cluster.nodes} x {cluster.gpus_per_node} GPUs")
    fitting = [candidate for need, candidate in needs if need <= cluster.memory_bytes]
    if not fitting:
        short = min(need for need, _ in needs) - cluster.memory_bytes
        raise ValueError(f"no plan fits: the smallest is short of memory by {short / 1e9:.3f} GB on the fullest GPU")
    return min(fitting, key=lambda candidate: step_seconds(model, cluster, candidate))
