"""Formulas by going through the steps: chunks round the ring, squares of a pipeline, one byte after the other. Lines as
artists that are added by hand, the picture from the canvas."""

from fractions import Fraction

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D


def all_reduce_bytes(model_bytes, n):
    if model_bytes < 0 or n < 1:
        raise ValueError("bytes must not be negative, and there must be a rank")
    chunk = Fraction(model_bytes) / n
    sent = Fraction(0)
    for _phase in ("reduce-scatter", "all-gather"):
        for _step in range(n - 1):
            sent += chunk
    return float(sent)


def all_reduce_seconds(model_bytes, n, bandwidth, latency=0.0):
    if latency < 0 or bandwidth <= 0:
        raise ValueError("a link must carry something, and not before it is sent")
    steps = 2 * (n - 1)
    if steps == 0:
        return 0.0 * all_reduce_bytes(model_bytes, n)
    step = all_reduce_bytes(model_bytes, n) / steps / bandwidth + latency
    return steps * step


def amdahl_speedup(p, n):
    if p < 0 or p > 1 or n < 1:
        raise ValueError("p is a fraction, and n counts workers")
    serial, divided = Fraction(1) - Fraction(p), Fraction(p) / n
    return float(1 / (serial + divided))


def communication_efficiency(compute_seconds, communication_seconds):
    if min(compute_seconds, communication_seconds) < 0:
        raise ValueError("time does not run backwards")
    return 1 - communication_seconds / (compute_seconds + communication_seconds)


def model_state_bytes(parameters, n, stage):
    if parameters < 0 or n < 1:
        raise ValueError("parameters must not be negative, and there must be a rank")
    try:
        whole = {0: 16, 1: 4, 2: 2, 3: 0}[stage]
    except KeyError:
        raise ValueError(f"ZeRO has no stage {stage}") from None
    return parameters * whole + parameters * (16 - whole) / n


def pipeline_utilization(stages, micro_batches):
    if stages < 1 or micro_batches < 1:
        raise ValueError("there must be a stage and a micro-batch")
    turns = micro_batches + stages - 1
    busy = sum(0 <= turn - stage < micro_batches for stage in range(stages) for turn in range(turns))
    return busy / (stages * turns)


def tensor_parallel_bytes(layers, batch, seq_len, d_model, bytes_per_element=2):
    total = 2
    for factor in (layers, batch, seq_len, d_model, bytes_per_element):
        if factor < 0:
            raise ValueError("a size must not be negative")
        total *= factor
    return total


def _page(title):
    figure = Figure()
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(1, 1, 1)
    figure.suptitle(title)
    return figure, axes


def _done(figure, axes, path):
    axes.relim()
    axes.autoscale_view()
    figure.legend(loc="upper left", bbox_to_anchor=(0.13, 0.87))
    if path is not None:
        with open(path, "wb") as file:
            figure.canvas.print_png(file)
    return figure


def all_reduce_overhead_figure(path=None, model_sizes=(1e6, 1e9, 1e12), links=None, n=8):
    links = {"fast": 1e11, "slow": 1e9} if links is None else links
    figure, axes = _page(f"All-reduce on {n} ranks")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for name in sorted(links):
        line = Line2D(list(model_sizes), [all_reduce_seconds(size, n, links[name]) for size in model_sizes])
        line.set_label(f"link: {name}")
        axes.add_line(line)
    axes.set_xlabel("bytes")
    axes.set_ylabel("seconds")
    return _done(figure, axes, path)


def scaling_efficiency_figure(path=None, links=None, max_n=16):
    links = {"fast": 0.99, "slow": 0.9} if links is None else links
    figure, axes = _page("Speed-up")
    axes.add_line(Line2D([1, max_n], [1, max_n], color="gray"))
    for name in sorted(links):
        counts = range(1, max_n + 1)
        axes.add_line(Line2D(counts, [amdahl_speedup(links[name], n) for n in counts], label=name))
    axes.set_xlabel("GPUs")
    axes.set_ylabel("times as fast")
    return _done(figure, axes, path)
