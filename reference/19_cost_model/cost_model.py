"""What communication, memory and parallel work cost, one formula a function, and two pictures of them.

A model of cost is not there to be exact. It says in a second what a week on a cluster would say, within some ten
percent; and where a measurement is far from it, something is wrong with one of the two. Bytes, seconds and bytes per
second throughout; GB is 10^9 bytes.
"""

from collections.abc import Mapping, Sequence
from os import PathLike

from matplotlib.axes import Axes
from matplotlib.figure import Figure

PARAMETER, GRADIENT, OPTIMIZER = 2, 2, 12
"""Bytes a parameter, mixed-precision Adam: half-precision value and gradient; in float32 a copy and two moments."""
MODEL_SIZES = [10.0**exponent for exponent in range(6, 13)]
BANDWIDTHS = {"Ethernet 25 Gbit/s": 3.125e9, "InfiniBand NDR": 50e9, "PCIe 5.0 x16": 64e9, "NVLink 4": 450e9}
PARALLEL = {"Ethernet 25 Gbit/s": 0.90, "InfiniBand NDR": 0.99, "NVLink 4": 0.999}


def all_reduce_bytes(model_bytes: float, n: int) -> float:
    """Bytes that each of n ranks sends in a ring all-reduce: 2(n−1)/n · M.

    Patarasuk and Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", 2009, section 3."""
    _not_negative(model_bytes=model_bytes)
    _at_least_one(n=n)
    # A reduce-scatter and an all-gather; in each, n − 1 chunks of M/n leave every rank.
    return 2 * (n - 1) / n * model_bytes


def all_reduce_seconds(model_bytes: float, n: int, bandwidth: float, latency: float = 0.0) -> float:
    """Seconds of the same: its bytes over the bandwidth, and a latency for each of the 2(n−1) steps.

    Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005, section 4."""
    _not_negative(latency=latency)
    if not bandwidth > 0:
        raise ValueError(f"bandwidth must be above 0 (got {bandwidth})")
    return all_reduce_bytes(model_bytes, n) / bandwidth + 2 * (n - 1) * latency


def amdahl_speedup(p: float, n: int) -> float:
    """How many times as fast n workers are as one, where the fraction p of the work can be divided: 1/((1−p) + p/n).

    Amdahl, "Validity of the Single Processor Approach to Achieving Large Scale Computing Capabilities", 1967."""
    _at_least_one(n=n)
    if not 0 <= p <= 1:
        raise ValueError(f"p must lie between 0 and 1 (got {p})")
    # The time of one worker is 1. What cannot be divided stays, however large n is: 1/(1−p) is the limit.
    return 1 / ((1 - p) + p / n)


def communication_efficiency(compute_seconds: float, communication_seconds: float) -> float:
    """The fraction of a step that is spent on computing, where communication is not hidden behind it."""
    _not_negative(compute_seconds=compute_seconds, communication_seconds=communication_seconds)
    whole = compute_seconds + communication_seconds
    if whole == 0:
        raise ValueError("a step must take some time (got 0 s of both)")
    return compute_seconds / whole


def model_state_bytes(parameters: float, n: int, stage: int) -> float:
    """A rank's bytes of parameters, gradients and optimizer state under ZeRO, without activations.

    Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, sections 3.1
    and 5."""
    _not_negative(parameters=parameters)
    _at_least_one(n=n)
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"stage must be 0, 1, 2 or 3 (got {stage})")
    # Each stage divides among the ranks what the one before divides, and one thing more; the largest comes first.
    optimizer = OPTIMIZER / n if stage >= 1 else OPTIMIZER
    gradient = GRADIENT / n if stage >= 2 else GRADIENT
    parameter = PARAMETER / n if stage >= 3 else PARAMETER
    return parameters * (parameter + gradient + optimizer)


def pipeline_utilization(stages: int, micro_batches: int) -> float:
    """The fraction of time that a stage of a pipeline works (GPipe and 1F1B alike): m/(m + s − 1).

    Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", 2019, section 2.3."""
    _at_least_one(stages=stages, micro_batches=micro_batches)
    # A stage works for m turns, and the last micro-batch leaves the last stage s − 1 turns after the first stage.
    return micro_batches / (micro_batches + stages - 1)


def tensor_parallel_bytes(layers: int, batch: int, seq_len: int, d_model: int, bytes_per_element: float = 2) -> float:
    """Bytes of all activations that one forward pass all-reduces: two messages a layer, after attention and after MLP.

    Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism", 2019,
    section 3."""
    sizes = {"layers": layers, "batch": batch, "seq_len": seq_len, "d_model": d_model}
    _not_negative(**sizes, bytes_per_element=bytes_per_element)
    message = batch * seq_len * d_model * bytes_per_element
    return 2 * layers * message


def all_reduce_overhead_figure(
    path: str | PathLike[str] | None = None,
    model_sizes: Sequence[float] = MODEL_SIZES,
    links: Mapping[str, float] = BANDWIDTHS,
    n: int = 8,
) -> Figure:
    """Seconds of an all-reduce among n ranks over the model's size in bytes, a line for each link (bytes/s)."""
    figure, axes = _blank(f"All-reduce among {n} ranks", "model size (bytes)", "time (s)")
    for name, bandwidth in links.items():
        seconds = [all_reduce_seconds(size, n, bandwidth) for size in model_sizes]
        axes.plot(model_sizes, seconds, marker=".", label=f"{name}, {bandwidth / 1e9:g} GB/s")
    # Powers of ten on both sides: what is proportional is a line of slope 1, and a faster link lies lower.
    axes.set(xscale="log", yscale="log")
    return _finished(figure, axes, path)


def scaling_efficiency_figure(
    path: str | PathLike[str] | None = None, links: Mapping[str, float] = PARALLEL, max_n: int = 64
) -> Figure:
    """Amdahl's speed-up over the number of GPUs, a line for each link (its parallel fraction p), beside the ideal."""
    figure, axes = _blank("Speed-up by Amdahl's law", "number of GPUs", "speed-up")
    counts = list(range(1, max_n + 1))
    axes.plot(counts, counts, color="black", linestyle="--", label="ideal")
    for name, p in links.items():
        axes.plot(counts, [amdahl_speedup(p, n) for n in counts], label=f"{name}, p = {p:g}")
    return _finished(figure, axes, path)


def _blank(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    # A Figure by itself, not by pyplot, which remembers its figures and shows them in windows. It draws in memory.
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.set(title=title, xlabel=x, ylabel=y)
    return figure, axes


def _finished(figure: Figure, axes: Axes, path: str | PathLike[str] | None) -> Figure:
    axes.grid(alpha=0.3)
    axes.legend()
    if path is not None:
        figure.savefig(path, format="png")
    return figure


def _not_negative(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise ValueError(f"{name} must not be negative (got {value})")


def _at_least_one(**values: float) -> None:
    for name, value in values.items():
        if not value >= 1:
            raise ValueError(f"{name} must be at least 1 (got {value})")
