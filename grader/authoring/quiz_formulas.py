"""What communication, memory and parallel work cost: the closed forms that exercise 19 asks for.

They solve that exercise, so they are kept where no bundle for students takes them: the lint holds the banks' values to
them, and the quiz shows the values alone.

Bytes, seconds and bytes per second throughout; GB is 10^9 bytes. All raise ValueError for input that cannot be.
"""

from __future__ import annotations

import math

PARAMETER_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2, 2, 12
"""Mixed-precision Adam: half-precision values and gradients; in float32 a master copy and two moments."""


def all_reduce_bytes(model_bytes: float, n: int) -> float:
    """Bytes that each of n ranks sends in a ring all-reduce of `model_bytes`: 2(n−1)/n times these.

    Patarasuk and Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", 2009, section 3."""
    _not_negative(model_bytes=model_bytes)
    _at_least_one(n=n)
    return 2 * (n - 1) / n * model_bytes


def all_reduce_seconds(model_bytes: float, n: int, bandwidth: float, latency: float = 0.0) -> float:
    """Seconds of a ring all-reduce: its bytes over the bandwidth (bytes/s), and 2(n−1) steps of `latency` seconds.

    Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005, section 4."""
    _not_negative(latency=latency)
    if not (bandwidth > 0 and math.isfinite(bandwidth)):
        raise ValueError(f"bandwidth must be positive (got {bandwidth})")
    return all_reduce_bytes(model_bytes, n) / bandwidth + 2 * (n - 1) * latency


def amdahl_speedup(p: float, n: int) -> float:
    """Speed-up on n workers where the fraction p of the work is parallel.

    Amdahl, "Validity of the Single Processor Approach to Achieving Large Scale Computing Capabilities", 1967."""
    _at_least_one(n=n)
    if not 0 <= p <= 1:
        raise ValueError(f"p must lie between 0 and 1 (got {p})")
    return 1 / ((1 - p) + p / n)


def communication_efficiency(compute_seconds: float, communication_seconds: float) -> float:
    """The fraction of a step that computes, where communication is not overlapped."""
    _not_negative(compute_seconds=compute_seconds, communication_seconds=communication_seconds)
    if compute_seconds + communication_seconds == 0:
        raise ValueError("a step must take some time (got 0 s of both)")
    return compute_seconds / (compute_seconds + communication_seconds)


def model_state_bytes(parameters: float, n: int, stage: int) -> float:
    """A rank's bytes of parameters, gradients and optimizer state under ZeRO, without activations.

    Stage 0 shards nothing, 1 the optimizer's state, 2 also gradients, 3 also parameters. Rajbhandari et al., "ZeRO:
    Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, sections 3.1 and 5."""
    _not_negative(parameters=parameters)
    _at_least_one(n=n)
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"stage must be 0, 1, 2 or 3 (got {stage})")
    costs = ((OPTIMIZER_BYTES, 1), (GRADIENT_BYTES, 2), (PARAMETER_BYTES, 3))
    return sum(parameters * cost / (n if stage >= first else 1) for cost, first in costs)


def pipeline_utilization(stages: int, micro_batches: int) -> float:
    """The fraction of time that a stage of a pipeline (GPipe or 1F1B) works: m/(m + s − 1).

    Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", 2019, section 2.3."""
    _at_least_one(stages=stages, micro_batches=micro_batches)
    return micro_batches / (micro_batches + stages - 1)


def tensor_parallel_bytes(layers: int, batch: int, seq_len: int, d_model: int, bytes_per_element: float = 2) -> float:
    """Bytes of activations that all-reduces sum in one forward pass: two messages a layer, after attention and MLP.

    Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism", 2019,
    section 3."""
    sizes = {"layers": layers, "batch": batch, "seq_len": seq_len, "d_model": d_model}
    _not_negative(**sizes, bytes_per_element=bytes_per_element)
    return 2 * layers * batch * seq_len * d_model * bytes_per_element


def _not_negative(**values: float) -> None:
    for name, value in values.items():
        if not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name} must not be negative (got {value})")


def _at_least_one(**values: float) -> None:
    for name, value in values.items():
        if not (value >= 1 and math.isfinite(value)):
            raise ValueError(f"{name} must be at least 1 (got {value})")
