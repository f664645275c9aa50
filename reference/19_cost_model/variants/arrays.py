"""NumPy throughout: the formulas give numpy floats, the figures are computed for all x at once, and drawn by loglog and
axline. The PNG goes through memory."""

import io
import pathlib

import numpy as np
from matplotlib.figure import Figure

SIZES = np.logspace(5, 10, 6)


def _positive(*counts):
    if np.any(np.asarray(counts) < 1):
        raise ValueError(f"counts must be at least 1 (got {counts})")


def _sizes(*sizes):
    if np.any(np.asarray(sizes, dtype=np.float64) < 0):
        raise ValueError(f"sizes and times must not be negative (got {sizes})")


def all_reduce_bytes(model_bytes, n):
    _sizes(model_bytes)
    _positive(n)
    return 2 * np.float64(model_bytes) * (1 - 1 / np.float64(n))


def all_reduce_seconds(model_bytes, n, bandwidth, latency=0.0):
    _sizes(latency)
    if bandwidth <= 0:
        raise ValueError("no bandwidth")
    return np.dot([all_reduce_bytes(model_bytes, n), 2 * (n - 1)], [1 / np.float64(bandwidth), latency])


def amdahl_speedup(p, n):
    _positive(n)
    if not 0 <= p <= 1:
        raise ValueError("p is no fraction")
    return np.reciprocal(np.float64(1 - p) + np.float64(p) / n)


def communication_efficiency(compute_seconds, communication_seconds):
    _sizes(compute_seconds, communication_seconds)
    return np.float64(compute_seconds) / np.sum([compute_seconds, communication_seconds])


def model_state_bytes(parameters, n, stage):
    _sizes(parameters)
    _positive(n)
    if stage not in range(4):
        raise ValueError("no such stage")
    costs = np.array([2.0, 2.0, 12.0])
    divided = np.array([stage >= 3, stage >= 2, stage >= 1])
    return float(parameters) * np.where(divided, costs / n, costs).sum()


def pipeline_utilization(stages, micro_batches):
    _positive(stages, micro_batches)
    return 1 - (stages - 1) / np.float64(micro_batches + stages - 1)


def tensor_parallel_bytes(layers, batch, seq_len, d_model, bytes_per_element=2):
    _sizes(layers, batch, seq_len, d_model, bytes_per_element)
    return 2 * np.prod([layers, batch, seq_len, d_model, bytes_per_element], dtype=np.float64)


def _saved(figure, path):
    if path:
        memory = io.BytesIO()
        figure.savefig(memory, dpi=80, bbox_inches="tight")
        pathlib.Path(path).write_bytes(memory.getvalue())
    return figure


def all_reduce_overhead_figure(path=None, model_sizes=SIZES, links={"a": 1e10}, n=8):  # noqa: B006
    figure = Figure(figsize=(5, 4), tight_layout=True)
    axes = figure.add_axes((0.15, 0.15, 0.8, 0.75))
    sizes = np.asarray(model_sizes, dtype=np.float64)
    for name, bandwidth in dict(links).items():
        axes.loglog(sizes, 2 * (n - 1) / n * sizes / bandwidth, "o--", label=f"{name} ({bandwidth:.2e} B/s)")
    axes.set_title("All-reduce", loc="left")
    axes.set_xlabel("model [B]")
    axes.set_ylabel("t [s]")
    axes.legend(loc="best", fontsize="small")
    return _saved(figure, path)


def scaling_efficiency_figure(path=None, links={"a": 0.9}, max_n=32):  # noqa: B006
    figure = Figure(figsize=(5, 4))
    axes = figure.add_axes((0.15, 0.15, 0.8, 0.75))
    counts = np.arange(1, max_n + 1)
    for name, p in links.items():
        axes.plot(counts, 1 / (1 - p + p / counts), label=name, alpha=0.7)
    axes.axline((1, 1), slope=1, color="k", linewidth=0.5)
    axes.set_title("Amdahl")
    axes.set_xlabel("n")
    axes.set_ylabel("S")
    axes.legend()
    return _saved(figure, path)
