"""Arguments are checked by a decorator that knows their names; one drawing function serves both figures, with settings
that hold for it alone, logarithmic second axes, and labels of the figure in place of the axes'."""

import functools
import inspect
import os

import matplotlib
from matplotlib.figure import Figure

AT_LEAST = {"n": 1, "stages": 1, "micro_batches": 1}
AT_MOST = {"p": 1, "stage": 3}
FREE = ("links", "path", "model_sizes", "max_n")


def possible(formula):
    signature = inspect.signature(formula)

    @functools.wraps(formula)
    def checked(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if not AT_LEAST.get(name, 0) <= value <= AT_MOST.get(name, float("inf")):
                raise ValueError(f"{name} cannot be {value}")
        if bound.arguments.get("bandwidth") == 0:
            raise ValueError("bandwidth cannot be 0")
        return formula(*bound.args, **bound.kwargs)

    return checked


@possible
def all_reduce_bytes(model_bytes, n):
    return 2 * model_bytes - 2 * model_bytes / n


@possible
def all_reduce_seconds(model_bytes, n, bandwidth, latency=0.0):
    return 2 * (n - 1) * (model_bytes / n / bandwidth + latency)


@possible
def amdahl_speedup(p, n):
    return n / (n * (1 - p) + p)


@possible
def communication_efficiency(compute_seconds, communication_seconds):
    if compute_seconds == 0:
        return 0
    return 1 / (1 + communication_seconds / compute_seconds)


@possible
def model_state_bytes(parameters, n, stage):
    return [16, 4 + 12 / n, 2 + 14 / n, 16 / n][stage] * parameters


@possible
def pipeline_utilization(stages, micro_batches):
    return 1 / (1 + (stages - 1) / micro_batches)


@possible
def tensor_parallel_bytes(layers, batch, seq_len, d_model, bytes_per_element=2):
    message = batch * seq_len * d_model * bytes_per_element
    return sum(message for _layer in range(layers) for _block in ("attention", "mlp"))


def drawn(path, x, curves, words, scale, ideal=None):
    with matplotlib.rc_context({"axes.grid": True, "lines.linewidth": 2.5}):
        figure = Figure(figsize=(8, 6), facecolor="lightyellow")
        axes = figure.subplot_mosaic([["curves"]])["curves"]
        axes.set_xscale(*scale[0], **scale[1])
        axes.set_yscale(*scale[0], **scale[1])
        handles = [axes.plot(x, y, drawstyle="default")[0] for y in curves.values()]
        for handle, name in zip(handles, curves, strict=True):
            handle.set_label(f"«{name}»")
        if ideal is not None:
            axes.plot([0.5, 2 * max(ideal)], [0.5, 2 * max(ideal)], ":", color="gray")
        axes.legend(handles, [f"over {name}" for name in curves], title="links")
        figure.suptitle(words[0])
        figure.supxlabel(words[1])
        figure.supylabel(words[2])
    if path is not None:
        figure.savefig(os.fspath(path), transparent=True, metadata={"Title": words[0]})
    return figure


def all_reduce_overhead_figure(path=None, model_sizes=None, links=None, n=8):
    sizes = [10**6, 10**8] if model_sizes is None else list(model_sizes)
    links = {"NVLink": 450 * 10**9, "PCIe": 64 * 10**9} if links is None else links
    curves = {name: [all_reduce_seconds(size, n, speed) for size in sizes] for name, speed in links.items()}
    return drawn(path, sizes, curves, ("Overhead", "model size, bytes", "all-reduce, seconds"), (("log",), {}))


def scaling_efficiency_figure(path=None, links=None, max_n=None):
    counts = range(1, (128 if max_n is None else max_n) + 1)
    links = {"NVLink": 0.999, "PCIe": 0.97} if links is None else links
    curves = {name: [amdahl_speedup(p, n) for n in counts] for name, p in links.items()}
    return drawn(path, counts, curves, ("Scaling", "GPUs", "speed-up"), (("log",), {"base": 2}), ideal=counts)
