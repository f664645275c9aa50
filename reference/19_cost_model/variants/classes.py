"""A link and a chart as classes, matplotlib imported only when something is drawn, the second figure with two axes: the
speed-up, and beside it the efficiency, which nobody asked for."""

from dataclasses import dataclass
from math import prod


class Impossible(ValueError):
    pass


def at_least(bound, **values):
    for name, value in values.items():
        if value < bound:
            raise Impossible(f"{name} = {value}, and {bound} is the least")


@dataclass(frozen=True)
class Ring:
    n: int

    def __post_init__(self):
        at_least(1, n=self.n)

    @property
    def steps(self):
        return 2 * self.n - 2

    def sent(self, size):
        at_least(0, size=size)
        return self.steps * size / self.n


@dataclass(frozen=True)
class Link:
    bandwidth: float
    latency: float = 0.0

    def __post_init__(self):
        at_least(0, latency=self.latency)
        if self.bandwidth <= 0:
            raise Impossible("a link without bandwidth")

    def seconds(self, ring, size):
        return ring.sent(size) / self.bandwidth + ring.steps * self.latency


def all_reduce_bytes(model_bytes, n):
    return Ring(n).sent(model_bytes)


def all_reduce_seconds(model_bytes, n, bandwidth, latency=0.0):
    return Link(bandwidth, latency).seconds(Ring(n), model_bytes)


def amdahl_speedup(p, n):
    at_least(1, n=n)
    at_least(0, p=p, serial=1 - p)
    return (1 - p + p / n) ** -1


def communication_efficiency(compute_seconds, communication_seconds):
    at_least(0, compute=compute_seconds, communication=communication_seconds)
    return compute_seconds / sum((compute_seconds, communication_seconds))


def model_state_bytes(parameters, n, stage):
    at_least(1, n=n)
    at_least(0, parameters=parameters, stage=stage)
    match stage:
        case 0:
            each = 2 + 2 + 12
        case 1:
            each = 2 + 2 + 12 / n
        case 2:
            each = 2 + (2 + 12) / n
        case 3:
            each = (2 + 2 + 12) / n
        case _:
            raise Impossible(f"stage {stage}")
    return each * parameters


def pipeline_utilization(stages, micro_batches):
    at_least(1, stages=stages, micro_batches=micro_batches)
    bubble = (stages - 1) / (stages - 1 + micro_batches)
    return 1 - bubble


def tensor_parallel_bytes(layers, batch, seq_len, d_model, bytes_per_element=2):
    sizes = (layers, batch, seq_len, d_model, bytes_per_element)
    at_least(0, smallest=min(sizes))
    return float(2 * prod(sizes))


class Chart:
    def __init__(self, columns):
        from matplotlib import figure, style

        with style.context("ggplot"):
            self.figure = figure.Figure(figsize=(9, 4), dpi=120)
            self.axes = self.figure.subplots(1, columns, squeeze=False)[0]

    def finish(self, path):
        self.figure.tight_layout()
        for axes in self.axes:
            axes.legend()
        if path is not None:
            self.figure.savefig(path, dpi=60)
        return self.figure


def all_reduce_overhead_figure(path=None, model_sizes=(2e6, 2e9), links=None, n=8):
    chart = Chart(1)
    (axes,) = chart.axes
    for name, bandwidth in (links or {"Ethernet": 1.25e9}).items():
        link, ring = Link(bandwidth), Ring(n)
        points = [(size, link.seconds(ring, size)) for size in model_sizes]
        axes.plot(*zip(*points, strict=True), label=name, color="black", marker="x")
    axes.set(xscale="log", yscale="log", xlabel="size / B", ylabel="time / s", title=f"{n} ranks")
    axes.axhline(1.0, linestyle=":", label="a second")
    return chart.finish(path)


def scaling_efficiency_figure(path=None, links=None, max_n=24):
    chart = Chart(2)
    left, right = chart.axes
    counts = [n + 1 for n in range(max_n)]
    for name, p in (links or {"Ethernet": 0.8}).items():
        left.plot(counts, [amdahl_speedup(p, n) for n in counts], label=name)
        right.plot(counts, [100 * amdahl_speedup(p, n) / n for n in counts], label="in percent")
    left.plot(counts, counts, label="ideal")
    left.set(xlabel="GPUs", ylabel="speed-up")
    right.set(xlabel="GPUs", ylabel="efficiency (%)")
    chart.figure.suptitle("What more GPUs bring")
    return chart.finish(path)
