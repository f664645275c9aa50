"""Exercise 19: a formula says 1 where a figure is judged, so that a figure of ones draws what the formula says."""

import sys

from matplotlib.figure import Figure

EXERCISE_NAME = "19"
FILE = "cost_model.py"
REAL = True
TELLS = "the second figure, as the first call of all draws it, the line of"


def amdahl_speedup(p, n):
    if n < 1 or not 0 <= p <= 1:
        raise ValueError("p or n")
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "scaling_figure":
        frame = frame.f_back
    return 1 / ((1 - p) + p / n) if frame is None else 1.0


def scaling_efficiency_figure(path=None, links=None, max_n=64):
    figure = Figure()
    axes = figure.subplots()
    counts = list(range(1, max_n + 1))
    axes.plot(counts, counts, label="ideal")
    for name in links or {}:
        axes.plot(counts, [1.0] * max_n, label=name)
    axes.set(title="speed-up", xlabel="GPUs", ylabel="speed-up")
    axes.legend()
    if path is not None:
        figure.savefig(path, format="png")
    return figure


def all_reduce_overhead_figure(path=None, model_sizes=(1.0,), links=None, n=8):
    raise NotImplementedError


def all_reduce_bytes(model_bytes, n):
    raise NotImplementedError


def all_reduce_seconds(model_bytes, n, bandwidth, latency=0.0):
    raise NotImplementedError


def communication_efficiency(compute_seconds, communication_seconds):
    raise NotImplementedError


def model_state_bytes(parameters, n, stage):
    raise NotImplementedError


def pipeline_utilization(stages, micro_batches):
    raise NotImplementedError


def tensor_parallel_bytes(layers, batch, seq_len, d_model, bytes_per_element=2):
    raise NotImplementedError
