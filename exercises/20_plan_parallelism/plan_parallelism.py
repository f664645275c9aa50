"""Exercise 20: what a parallel plan costs in memory and time, and the best plan for a cluster. Read README.md first.

The formulas of both costs are in README.md, section "The cost model", with every symbol, unit and source.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSpec:
    """A transformer like GPT, and the batch of one optimizer step. All are positive ints."""

    layers: int  # L
    hidden: int  # h, the width
    heads: int  # a
    seq_len: int  # s, in tokens
    vocab: int  # V
    global_batch: int  # B, in sequences


@dataclass(frozen=True)
class ClusterSpec:
    """Equal nodes of equal GPUs."""

    nodes: int  # n
    gpus_per_node: int  # g
    memory_bytes: float  # of one GPU
    flops: float  # F, FLOP/s that a GPU really reaches
    intra_bandwidth: float  # bytes/s between two GPUs of a node
    inter_bandwidth: float  # bytes/s between two GPUs of different nodes
    latency: float  # seconds, of every message


@dataclass(frozen=True)
class Plan:
    """How the GPUs share the work. dp · tp · pp is the number of GPUs."""

    dp: int  # d, data parallel replicas
    tp: int  # t, GPUs that share a layer
    pp: int  # p, stages of the pipeline
    zero_stage: int  # z, 0 to 3; at most 1 where pp > 1
    micro_batch: int  # b, sequences per replica and micro-batch
    recompute: bool  # r, whether backward computes the activations of each layer again


def memory_bytes(model: ModelSpec, cluster: ClusterSpec, plan: Plan) -> float:
    """Bytes on the fullest GPU: the model's state and the activations that wait for backward.

    `plan` is legal for the model and the cluster; it need not fit.
    """
    # TODO 1: the parameters of a GPU of the first stage.
    # TODO 2: how many bytes of state for each, at this stage of ZeRO.
    # TODO 3: what a layer keeps of a micro-batch, how many layers there are, and how many micro-batches wait at once.
    raise NotImplementedError("memory_bytes is yours to write")


def step_seconds(model: ModelSpec, cluster: ClusterSpec, plan: Plan) -> float:
    """Seconds of one optimizer step over the global batch. `plan` is legal; it need not fit."""
    # TODO 1: what one micro-batch takes on the slowest stage: arithmetic, all-reduces, messages to the next stage.
    # TODO 2: how many such times pass until the last micro-batch is through.
    # TODO 3: gradients and parameters among the replicas.
    raise NotImplementedError("step_seconds is yours to write")


def plan(model: ModelSpec, cluster: ClusterSpec) -> Plan:
    """A legal plan that fits and whose step takes at most 1.05 times that of the best one there is.

    Up to 16,384 GPUs, for which there are 2 s.

    Raises:
        ValueError: no plan fits. The message says so, and best of all what is short, and by how much.
    """
    # TODO 1: go through all legal plans. What has to divide what?
    # TODO 2: leave out those that do not fit; take the fastest of the rest.
    # TODO 3: what do you say where none is left?
    raise NotImplementedError("plan is yours to write")
