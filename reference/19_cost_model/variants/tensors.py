"""With torch in float64: formulas return tensors without dimensions, figures draw what torch computed."""

import torch
from matplotlib.figure import Figure

BYTES = torch.tensor([12.0, 2.0, 2.0], dtype=torch.float64)
"""Optimizer, gradient, parameter, in the order in which ZeRO divides them."""


def require(condition, text):
    if not bool(condition):
        raise ValueError(text)


def number(value):
    return torch.as_tensor(value, dtype=torch.float64)


def all_reduce_bytes(model_bytes, n):
    require(model_bytes >= 0, "model_bytes")
    require(n >= 1, "n")
    return number(model_bytes) * (n - 1) / n * 2


def all_reduce_seconds(model_bytes, n, bandwidth, latency=0.0):
    require(bandwidth > 0, "bandwidth")
    require(latency >= 0, "latency")
    return all_reduce_bytes(model_bytes, n) / bandwidth + number(latency) * (n + n - 2)


def amdahl_speedup(p, n):
    require(0 <= p <= 1, "p")
    require(n >= 1, "n")
    return 1 / torch.lerp(number(1), 1 / number(n), number(p))


def communication_efficiency(compute_seconds, communication_seconds):
    times = torch.stack([number(compute_seconds), number(communication_seconds)])
    require((times >= 0).all(), "a time")
    return (times / times.sum())[0]


def model_state_bytes(parameters, n, stage):
    require(parameters >= 0, "parameters")
    require(n >= 1, "n")
    require(stage in {0, 1, 2, 3}, "stage")
    return number(parameters) * (BYTES[:stage].sum() / n + BYTES[stage:].sum())


def pipeline_utilization(stages, micro_batches):
    require(stages >= 1, "stages")
    require(micro_batches >= 1, "micro_batches")
    return number(micro_batches) / (stages - 1 + micro_batches)


def tensor_parallel_bytes(layers, batch, seq_len, d_model, bytes_per_element=2):
    sizes = torch.tensor([layers, batch, seq_len, d_model, bytes_per_element], dtype=torch.float64)
    require((sizes >= 0).all(), "a size")
    return 2 * sizes.prod()


def figure_of(x, lines, title, axis_labels, log):
    figure = Figure(layout="tight")
    axes = figure.gca()
    for label, y in lines.items():
        (axes.loglog if log else axes.plot)(x, y, label=label)
    axes.set_title(title, loc="right")
    for set_label, text in zip((axes.set_xlabel, axes.set_ylabel), axis_labels, strict=True):
        set_label(text)
    axes.legend()
    return figure


def all_reduce_overhead_figure(path=None, model_sizes=(1e7, 1e8, 1e9), links=(("wire", 1e9),), n=8):
    x = torch.tensor(model_sizes, dtype=torch.float64)
    lines = {
        name: torch.stack([all_reduce_seconds(size, n, speed) for size in x]) for name, speed in dict(links).items()
    }
    figure = figure_of(x, lines, "time of an all-reduce", ("bytes", "seconds"), log=True)
    if path is not None:
        figure.savefig(str(path), format="png")
    return figure


def scaling_efficiency_figure(path=None, links=(("wire", 0.95),), max_n=8):
    x = torch.arange(1, max_n + 1)
    lines = {f"{name} (p = {p})": torch.stack([amdahl_speedup(p, n) for n in x]) for name, p in dict(links).items()}
    figure = figure_of(x, lines | {"linear": x}, "speed-up", ("GPUs", "speed-up"), log=False)
    if path is not None:
        figure.savefig(str(path), format="png")
    return figure
