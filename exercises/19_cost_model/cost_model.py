"""Exercise 19: what communication, memory and parallel work cost. Read README.md first; each function is graded alone.

Nothing here communicates: it is arithmetic, and two figures. Bytes, seconds and bytes per second throughout; GB is
10^9 bytes. Impossible input raises ValueError, which says what is impossible.
"""

from collections.abc import Mapping, Sequence
from os import PathLike

from matplotlib.figure import Figure

MODEL_SIZES = [10.0**exponent for exponent in range(6, 13)]
"""Bytes: 1 MB to 1 TB."""
BANDWIDTHS = {"Ethernet 25 Gbit/s": 3.125e9, "InfiniBand NDR": 50e9, "PCIe 5.0 x16": 64e9, "NVLink 4": 450e9}
"""Bytes per second that a GPU can send over a link, by the data sheets."""
PARALLEL = {"Ethernet 25 Gbit/s": 0.90, "InfiniBand NDR": 0.99, "NVLink 4": 0.999}
"""The fraction of a step that can be divided among GPUs, for some model on each link. Change what you like."""


def all_reduce_bytes(model_bytes: float, n: int) -> float:
    """Bytes that each of n ranks sends in a ring all-reduce of `model_bytes`."""
    # TODO: README.md, "The idea". How many chunks leave a rank, and how large is one?
    raise NotImplementedError("all_reduce_bytes is yours to write")


def all_reduce_seconds(model_bytes: float, n: int, bandwidth: float, latency: float = 0.0) -> float:
    """Seconds of a ring all-reduce.

    Args:
        model_bytes: bytes to be summed.
        n: ranks on the ring.
        bandwidth: bytes per second that a rank can send.
        latency: seconds that each step of the ring takes beside that.
    """
    # TODO: the bytes take their time, and so do the steps.
    raise NotImplementedError("all_reduce_seconds is yours to write")


def amdahl_speedup(p: float, n: int) -> float:
    """How many times as fast n workers are as one, where the fraction p of the work can be divided among them."""
    # TODO: let one worker take 1. How long do n take?
    raise NotImplementedError("amdahl_speedup is yours to write")


def communication_efficiency(compute_seconds: float, communication_seconds: float) -> float:
    """The fraction of a step, 0 to 1, that is spent on computing, where communication comes after it."""
    # TODO: the part over the whole.
    raise NotImplementedError("communication_efficiency is yours to write")


def model_state_bytes(parameters: float, n: int, stage: int) -> float:
    """A rank's bytes of parameters, gradients and optimizer state, for mixed-precision Adam.

    Args:
        parameters: how many there are.
        n: ranks among which ZeRO divides.
        stage: of ZeRO: 0 divides nothing, 1 optimizer state, 2 gradients as well, 3 parameters as well.
    """
    # TODO: 2 + 2 + 12 bytes a parameter. Which of them does this stage divide by n?
    raise NotImplementedError("model_state_bytes is yours to write")


def pipeline_utilization(stages: int, micro_batches: int) -> float:
    """The fraction of the time, 0 to 1, that a stage of a pipeline works (GPipe and 1F1B alike)."""
    # TODO: for how many turns does a stage work, and how many pass until the last micro-batch has left the last stage?
    raise NotImplementedError("pipeline_utilization is yours to write")


def tensor_parallel_bytes(layers: int, batch: int, seq_len: int, d_model: int, bytes_per_element: float = 2) -> float:
    """Bytes of all activations that tensor parallelism all-reduces in one forward pass of a transformer."""
    # TODO: two messages a layer. How large is one?
    raise NotImplementedError("tensor_parallel_bytes is yours to write")


def all_reduce_overhead_figure(
    path: str | PathLike[str] | None = None,
    model_sizes: Sequence[float] = MODEL_SIZES,
    links: Mapping[str, float] = BANDWIDTHS,
    n: int = 8,
) -> Figure:
    """Seconds of an all-reduce among n ranks over the model's size in bytes, on logarithmic axes.

    Args:
        path: where the figure is saved as a PNG; None saves nothing.
        model_sizes: the x, in bytes.
        links: for each link's name its bandwidth in bytes per second; each is a line.
        n: ranks on the ring.
    """
    # TODO 1: make a Figure that no window and no pyplot knows of.
    # TODO 2: one labelled line a link, of exactly the numbers of all_reduce_seconds.
    # TODO 3: scales, labels, legend, title; save it where a path is given; return it.
    raise NotImplementedError("all_reduce_overhead_figure is yours to write")


def scaling_efficiency_figure(
    path: str | PathLike[str] | None = None, links: Mapping[str, float] = PARALLEL, max_n: int = 64
) -> Figure:
    """Amdahl's speed-up over the number of GPUs, beside the ideal.

    Args:
        path: where the figure is saved as a PNG; None saves nothing.
        links: for each link's name the fraction p of the work that can be divided; each is a line.
        max_n: the x are the integers from 1 to this.
    """
    # TODO: as above. The ideal is n times as fast on n GPUs.
    raise NotImplementedError("scaling_efficiency_figure is yours to write")
