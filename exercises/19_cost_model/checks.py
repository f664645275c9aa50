"""Judges what the formulas said and what was drawn. The closed forms are worked out here, in exact fractions.

A figure may draw what the closed forms say or, where the student's own function is wrong, what that says: it is told
once, by its own check.
"""

import math
from fractions import Fraction
from functools import partial

import torch

from grader.checks import Attempt, TypedDict, holds, listed

ROUNDINGS = 64
"""So many roundings a formula may take, in whatever order it is worked out."""


class Asked(Attempt):
    """A call of a formula: its answer as a float, if it is a number, and what it looked like."""

    answer: float | None
    what: str


class Line(TypedDict):
    label: str
    x: list[float]
    y: list[float]
    endless: bool


class Axes(TypedDict):
    lines: list[Line]
    scales: list[str]
    labels: list[str]


class Figure(Attempt):
    """What a call returned: its type, and what is drawn if it is a figure. `beside` has for each text of the legend the
    labels of the lines that look like what stands there."""

    kind: str
    axes: list[Axes]
    titles: list[str]
    legend: list[str]
    beside: list[list[str]]


class State(TypedDict):
    backend: str
    figures: list[int]
    current: bool
    settings: list[str]


class Picture(TypedDict):
    signature: bytes
    width: int
    height: int
    detail: float
    wanted: float
    bare: float
    within: float
    missing: float
    unseen: list[str]


# -- the formulas -----------------------------------------------------------------------------------------------------


def ring(size, n):
    return 2 * (n - 1) * Fraction(size) / n


def seconds(size, n, bandwidth, latency=0):
    return ring(size, n) / Fraction(bandwidth) + 2 * (n - 1) * Fraction(latency)


def speedup(p, n):
    return 1 / (1 - Fraction(p) + Fraction(p) / n)


def efficiency(compute, communication):
    return Fraction(compute) / (Fraction(compute) + Fraction(communication))


def state_bytes(parameters, n, stage):
    return Fraction(parameters) * sum(Fraction(each, n if stage >= first else 1) for each, first in STATE)


STATE = ((12, 1), (2, 2), (2, 3))
"""Bytes a parameter, and the stage from which on they are divided: optimizer, gradient, parameter."""


def utilization(stages, micro_batches):
    return Fraction(micro_batches, micro_batches + stages - 1)


def activations(layers, batch, seq_len, d_model, bytes_per_element=2):
    return 2 * layers * batch * seq_len * d_model * Fraction(bytes_per_element)


PARAMETERS = {
    "all_reduce_bytes": ("model_bytes", "n"),
    "all_reduce_seconds": ("model_bytes", "n", "bandwidth", "latency"),
    "communication_efficiency": ("compute_seconds", "communication_seconds"),
    "tensor_parallel_bytes": ("layers", "batch", "seq_len", "d_model", "bytes_per_element"),
    "amdahl_speedup": ("p", "n"),
    "model_state_bytes": ("parameters", "n", "stage"),
    "pipeline_utilization": ("stages", "micro_batches"),
}
FAMILY = {
    **dict.fromkeys(("amdahl_speedup", "model_state_bytes", "pipeline_utilization"), "shares"),
    **dict.fromkeys(("all_reduce_bytes", "all_reduce_seconds"), "communication"),
    **dict.fromkeys(("communication_efficiency", "tensor_parallel_bytes"), "communication"),
}


def written(name, call):
    """The call, as a person would write it."""
    named = zip(PARAMETERS[name], call, strict=False)
    return f"{name}({', '.join(f'{word}={value:.6g}' for word, value in named)})"


def judge(rank, name, calls, answers, form, mistakes):
    """Every answer is what the closed form says. `mistakes` are forms that are wrong in a way that has a name."""
    rank.expect_equal(len(answers), len(calls), "the number of answers")
    wrong = []
    for call, seen in zip(calls, answers, strict=True):
        subject, wanted = written(name, call), float(form(*call))
        rank.expect_success(seen, subject, expected=f"{wanted:.6g}")
        rank.expect(seen["answer"] is not None, subject, f"{wanted:.6g}", seen["what"])
        if not near(rank, seen["answer"], wanted):
            wrong.append((call, seen["answer"]))
    if wrong:
        call, answer = wrong[0]
        clause = called(rank, wrong, mistakes) or ratio(rank, wrong, form)
        rank.fail(written(name, call), expected=f"{float(form(*call)):.10g}", actual=f"{answer:.10g}{clause}")


def near(rank, answer, wanted):
    return holds(rank.expect_close, answer, float(wanted), "", terms=ROUNDINGS)


def called(rank, wrong, mistakes):
    """What the mistake is called that gives all of the wrong answers; empty where it has no name."""
    fits = (clause for clause, form in mistakes.items() if all(near(rank, seen, form(*call)) for call, seen in wrong))
    return next((f": {clause}" for clause in fits), "")


def ratio(rank, wrong, form):
    """How many times too large the answers are, where it is the same for all of them."""
    call, answer = wrong[0]
    factor = answer / float(form(*call)) if form(*call) else 0.0
    same = factor and all(near(rank, seen, factor * float(form(*call))) for call, seen in wrong)
    return f": {factor:.6g} times as much" if same else ""


def judge_formula(runs, probe, name, form, mistakes):
    for run in runs(FAMILY[name], recorded=(name,)):
        for rank in run:
            judge(rank, name, probe.questions(rank.secret, name), rank.read(name, list[Asked]), form, mistakes)


def test_ring_bytes(runs, probe):
    """all_reduce_bytes: what a rank sends on a ring"""
    mistakes = {
        "that is what one of the two phases sends": lambda size, n: ring(size, n) / 2,
        "that is twice the model, as if n were infinite": lambda size, n: 2 * Fraction(size),
        "that is whole models round the ring, not chunks of one n-th": lambda size, n: ring(size, n) * n,
        "that is what all ranks send together": lambda size, n: ring(size, n) * n / 2,
        "that rounds to whole bytes": lambda size, n: int(ring(size, n)),
    }
    judge_formula(runs, probe, "all_reduce_bytes", ring, mistakes)


def test_ring_seconds(runs, probe):
    """all_reduce_seconds: those bytes at the link's bandwidth"""
    mistakes = {
        "that is the whole model over the bandwidth": lambda size, n, bandwidth: Fraction(size) / Fraction(bandwidth),
        "that is what one of the two phases takes": lambda *call: seconds(*call) / 2,
        "that takes the bandwidth for bits per second": lambda *call: seconds(*call) * 8,
        "that is in milliseconds": lambda *call: seconds(*call) * 1000,
    }
    judge_formula(runs, probe, "all_reduce_seconds", seconds, mistakes)


def test_ring_latency(runs, probe):
    """all_reduce_seconds: a latency for every step of the ring"""

    def delayed(steps):
        return lambda size, n, bandwidth, latency: seconds(size, n, bandwidth) + steps(n) * Fraction(latency)

    mistakes = {
        "without the latency": delayed(lambda n: 0),
        "with a single latency, and there is one in each of 2(n−1) steps": delayed(lambda n: 1),
        "with n − 1 latencies, those of one phase": delayed(lambda n: n - 1),
        "with 2n latencies, and there are 2(n−1) steps": delayed(lambda n: 2 * n),
        "with n latencies": delayed(lambda n: n),
    }
    for run in runs("communication", recorded=("with latency",)):
        for rank in run:
            calls, answers = probe.delays(rank.secret), rank.read("with latency", list[Asked])
            judge(rank, "all_reduce_seconds", calls, answers, seconds, mistakes)


def test_amdahl(runs, probe):
    """amdahl_speedup: by Amdahl's law"""
    mistakes = {
        "p and 1 − p have changed places": lambda p, n: speedup(1 - Fraction(p), n),
        "that is the time, and the speed-up is one over it": lambda p, n: 1 / speedup(p, n),
        "that is the efficiency, the speed-up over n": lambda p, n: speedup(p, n) / n,
        "that is Gustafson's law, for work that grows with n": lambda p, n: 1 - Fraction(p) + Fraction(p) * n,
        "that is the limit for infinitely many": lambda p, n: 1 / (1 - Fraction(p)) if p < 1 else 0,
    }
    judge_formula(runs, probe, "amdahl_speedup", speedup, mistakes)


def test_efficiency(runs, probe):
    """communication_efficiency: the part of a step that computes"""
    mistakes = {
        "that is the part that communicates": lambda a, b: 1 - efficiency(a, b),
        "that is one time over the other, not over the whole step": lambda a, b: Fraction(a) / Fraction(b) if b else 0,
        "that is in percent, and a fraction is asked for": lambda a, b: 100 * efficiency(a, b),
        "that is for communication hidden behind computing": lambda a, b: Fraction(a) / max(Fraction(a), Fraction(b)),
    }
    judge_formula(runs, probe, "communication_efficiency", efficiency, mistakes)


def test_model_state(runs, probe):
    """model_state_bytes: a rank's memory under each stage of ZeRO"""

    def other(stage_of):
        return lambda parameters, n, stage: state_bytes(parameters, n, stage_of(stage))

    mistakes = {
        "that is what the stage before needs": other(lambda stage: max(stage - 1, 0)),
        "that is what the next stage needs": other(lambda stage: min(stage + 1, 3)),
        "that is without ZeRO": other(lambda stage: 0),
        "that divides everything": other(lambda stage: 3),
        "that is all ranks together": lambda parameters, n, stage: state_bytes(parameters, n, stage) * n,
        "that is in parameters of one byte": lambda parameters, n, stage: Fraction(parameters),
    }
    judge_formula(runs, probe, "model_state_bytes", state_bytes, mistakes)


def test_pipeline(runs, probe):
    """pipeline_utilization: the part of the time that a stage works"""
    mistakes = {
        "that is the bubble, the part in which a stage waits": lambda s, m: 1 - utilization(s, m),
        "that is the bubble over the work, (s − 1)/m": lambda s, m: Fraction(s - 1, m),
        "that counts a stage too many: the first one waits for nobody": lambda s, m: Fraction(m, m + s),
        "stages and micro-batches have changed places": lambda s, m: utilization(m, s),
        "that is a stage at a time, without micro-batches": lambda s, m: Fraction(1, s),
    }
    judge_formula(runs, probe, "pipeline_utilization", utilization, mistakes)


def test_tensor_parallel(runs, probe):
    """tensor_parallel_bytes: two messages a layer in a forward pass"""
    mistakes = {
        "that is one message a layer, and there are two": lambda *call: Fraction(activations(*call), 2),
        "that is four messages a layer, as forward and backward have together": lambda *call: 2 * activations(*call),
        "that is a single layer": lambda layers, *rest: activations(1, *rest),
        "that is one message": lambda layers, *rest: activations(1, *rest) / 2,
        "that counts elements and not bytes": lambda *call: activations(*call[:4], 1),
        "that is for elements of 2 bytes": lambda *call: activations(*call[:4]),
    }
    judge_formula(runs, probe, "tensor_parallel_bytes", activations, mistakes)


def judge_refusals(runs, probe, kind):
    """Each formula raises ValueError for each impossible input of this kind."""
    for name in probe.BAD[kind]:
        for run in runs(FAMILY[name], recorded=(f"{kind}: {name}",)):
            for rank in run:
                calls, answers = probe.refused(rank.secret, kind, name), rank.read(f"{kind}: {name}", list[Asked])
                rank.expect_equal(len(answers), len(calls), "the number of answers")
                for call, seen in zip(calls, answers, strict=True):
                    rank.expect_raised(seen, "ValueError", written(name, call), returned=f"it returned {seen['what']}")


def test_refuses_counts(runs, probe):
    """No ranks, stages or micro-batches: ValueError"""
    judge_refusals(runs, probe, "counts below 1")


def test_refuses_negative(runs, probe):
    """A negative size or time: ValueError"""
    judge_refusals(runs, probe, "negative sizes and times")


def test_refuses_rest(runs, probe):
    """p outside 0 to 1, a bandwidth of 0, a stage that ZeRO does not have: ValueError"""
    judge_refusals(runs, probe, "p, bandwidth and stage")


# -- the figures ------------------------------------------------------------------------------------------------------

OVERHEAD, SCALING = "overhead_figure", "scaling_figure"
FUNCTION = {OVERHEAD: "all_reduce_overhead_figure", SCALING: "scaling_efficiency_figure"}
PLACE = {OVERHEAD: "the first figure", SCALING: "the second figure"}


def figure(rank, name, subject):
    """What a call of a figure's function came to. One that raised, or returned something else, fails the check."""
    seen = rank.read(name, Figure)
    rank.expect_success(seen, subject)
    rank.expect(seen["kind"] == "Figure", f"what {subject} returned", "a matplotlib Figure", f"a {seen['kind']}")
    return seen


def lines_of(seen):
    return [line for axes in seen["axes"] for line in axes["lines"]]


def named(seen, name):
    """The lines whose label holds the link's name: its own, and further ones that are called after it."""
    return [line for line in lines_of(seen) if has_name(line["label"], name)]


def has_name(text, name):
    """Whether a link's whole name stands in a text, over however many lines."""
    return " ".join(name.split()) in " ".join(text.split())


def points(line):
    """x and y of a line in the order of x."""
    pairs = sorted(zip(line["x"], line["y"], strict=False))
    x, y = zip(*pairs, strict=True) if pairs else ((), ())
    return torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)


def runs_through(rank, line, x, ys):
    """Whether a line has these x and one of these y."""
    seen_x, seen_y = points(line)
    if seen_x.shape != x.shape or not holds(rank.expect_close, seen_x, x, ""):
        return False
    return any(holds(rank.expect_close, seen_y, y, "", terms=ROUNDINGS) for y in ys)


def all_finite(numbers):
    """None is no number; what is not finite is drawn nowhere."""
    return all(one is not None and math.isfinite(one) for one in numbers)


def judge_curves(rank, seen, subject, x, wanted, own, mistakes):
    """Each link has one line, by its label or else by its points, whose points are (x, y); of several lines that are
    called after it, the one with its points. `wanted` has the y of each link by the closed form, `own` by the student's
    function, `mistakes` further ones by what they are called."""
    free = lines_of(seen)
    x = torch.tensor(x, dtype=torch.float64)
    for name, values in wanted.items():
        mine, y = own.get(name, []), torch.tensor(values, dtype=torch.float64)
        ys = [y, torch.tensor(mine, dtype=torch.float64)] if len(mine) == len(values) and all_finite(mine) else [y]
        found = named(seen, name) or [line for line in free if runs_through(rank, line, x, ys)][:1]
        told = "" if found else f"no such line; there are {listed_lines(seen)}"
        if len(found) > 1:
            through = [line for line in found if runs_through(rank, line, x, ys)]
            told = f"{len(found)} lines that are called so, {len(through)} of them through its points"
            found = through
        rank.expect(len(found) == 1, f"{subject}, the line of {name!r}", "one line through its points", told)
        free = [line for line in free if line is not found[0]]
        if not runs_through(rank, found[0], x, ys):
            tell_line(rank, found[0], f"{subject}, the line of {name!r}", x, y, mistakes(name))


def tell_line(rank, line, subject, x, y, mistakes):
    """Say what is wrong with a line, which something is."""
    seen_x, seen_y = points(line)
    rank.expect_equal(len(seen_x), len(x), f"{subject}, the number of its points")
    rank.expect_close(seen_x, x, f"{subject}, x")
    rank.expect_close(seen_y, y, f"{subject}, y", terms=ROUNDINGS, alternatives=mistakes)


def axes_of(seen, links):
    """The axes with the links' lines, by their labels; where no line has one, all axes with lines."""
    used = [axes for axes in seen["axes"] if axes["lines"]]
    theirs = [axes for axes in used if any(has_name(line["label"], name) for line in axes["lines"] for name in links)]
    return theirs or used


def listed_lines(seen):
    """The labels of a figure's lines, for a sentence."""
    labels = [repr(line["label"]) for line in lines_of(seen)][:6]
    return f"lines labelled {listed(labels)}" if labels else "no lines"


def own_numbers(rank, name, right):
    """What the student's function said in the figure's run, where a check of its own finds it wrong: one that is right
    elsewhere says the same here, or it knows who asks."""
    return {} if right else rank.read("own numbers", dict[str, dict[str, list[float | None]]]).get(name, {})


def looked_at(runs, probe, family, arguments):
    """(rank, the call, what it was given, its figure, words for it) of each figure that is looked at. That the first
    one was not drawn is another check's business, for it had no display."""
    for run in runs(family, recorded=("first",)):
        for rank in run:
            for name in probe.LOOKED_AT:
                if name == "first" or holds(figure, rank, name, ""):
                    words = PLACE[family] + (", as the first call of all draws it" if name != "first" else "")
                    yield rank, name, arguments(rank.secret, name), figure(rank, name, FUNCTION[family]), words


def judge_words(rank, seen, subject, links):
    """Every link has a line with its name, and no other's, and a legend says so; axes have labels, and the figure a
    title."""
    for name in links:
        own = [line for line in named(seen, name) if sum(has_name(line["label"], each) for each in links) == 1]
        rank.expect(own, f"{subject}, the label of {name!r}", "on a line of its own", f"{listed_lines(seen)}")
        shown = any(has_name(text, name) for text in seen["legend"])
        rank.expect(shown, f"{subject}, the legend", f"a text with {name!r}", seen["legend"] or "no legend")
        for text, labels in zip(seen["legend"], seen["beside"], strict=False):
            mine = not has_name(text, name) or not labels or any(has_name(label, name) for label in labels)
            rank.expect(mine, f"{subject}, beside {text!r} in the legend", "the link's line", f"that of {labels[:1]}")
    for axes in axes_of(seen, links):
        for axis, label in zip("xy", axes["labels"], strict=False):
            rank.expect(label, f"{subject}, the label of the {axis} axis", "a label", "there is none")
    rank.expect(seen["titles"], subject, "a title, of the axes or of the figure", "there is none")


def test_overhead_numbers(runs, probe):
    """First figure: a line for each link, with the seconds of an all-reduce for every model size"""
    right = holds(test_ring_seconds, runs, probe)
    for rank, name, given, seen, words in looked_at(runs, probe, OVERHEAD, probe.overhead_arguments):
        wanted, others = overhead_curves(**given)
        telling = partial(as_tensors, others)
        judge_curves(rank, seen, words, drawn_over(given), wanted, own_numbers(rank, name, right), telling)


def overhead_curves(model_sizes, links, n):
    """The y of each link, and what they would be by mistakes that have a name."""

    def curve(form):
        return {name: [float(form(size, speed)) for size in model_sizes] for name, speed in links.items()}

    return curve(lambda size, speed: seconds(size, n, speed)), {
        "that is for 8 ranks, whatever n is": curve(lambda size, speed: seconds(size, 8, speed)),
        "that is in milliseconds": curve(lambda size, speed: 1000 * seconds(size, n, speed)),
        "that is the whole model over the bandwidth": curve(lambda size, speed: Fraction(size) / Fraction(speed)),
        "that is bytes and not seconds": curve(lambda size, speed: ring(size, n)),
    }


def as_tensors(curves, name):
    return {clause: torch.tensor(by_name[name], dtype=torch.float64) for clause, by_name in curves.items()}


def test_overhead_log(runs, probe):
    """First figure: both axes are logarithmic"""
    for rank, _, given, seen, words in looked_at(runs, probe, OVERHEAD, probe.overhead_arguments):
        used = axes_of(seen, given["links"])
        rank.expect(used, words, "lines", "no axes with a line")
        for axes in used:
            rank.expect_equal(axes["scales"], ["log", "log"], f"the scales of x and y in {words}")
    for run in runs(OVERHEAD, recorded=("third",)):
        for rank in run:
            seen, links = rank.read("third", Figure), probe.overhead_arguments(rank.secret, "third")["links"]
            for axes in axes_of(seen, links):
                rank.expect_equal(axes["scales"], ["log", "log"], "the scales of x and y in the first figure for n=1")
            for name, lines in ((name, named(seen, name)) for name in links):
                largest = min((max(map(abs, line["y"]), default=0.0) for line in lines), default=0.0)
                rank.expect(largest == 0, f"the first figure for n=1, y of {name!r}", "0", largest)


def test_overhead_words(runs, probe):
    """First figure: labels with the links' names, a legend, axis labels, a title"""
    for rank, _, given, seen, words in looked_at(runs, probe, OVERHEAD, probe.overhead_arguments):
        judge_words(rank, seen, words, given["links"])


def test_scaling_numbers(runs, probe):
    """Second figure: a line for each link, with Amdahl's speed-up for 1 to max_n GPUs"""
    right = holds(test_amdahl, runs, probe)
    for rank, call, given, seen, words in looked_at(runs, probe, SCALING, probe.scaling_arguments):
        wanted, others = scaling_curves(**given)
        telling = partial(as_tensors, others)
        judge_curves(rank, seen, words, drawn_over(given), wanted, own_numbers(rank, call, right), telling)


def drawn_over(given):
    """The x of each link's line."""
    return given["model_sizes"] if "model_sizes" in given else [*map(float, range(1, given["max_n"] + 1))]


def scaling_curves(links, max_n):
    """The y of each link, and what they would be by mistakes that have a name."""
    counts = range(1, max_n + 1)
    wanted = {name: [float(speedup(p, n)) for n in counts] for name, p in links.items()}
    return wanted, {
        "that is the efficiency, the speed-up over n": {
            name: [y / n for y, n in zip(values, counts, strict=True)] for name, values in wanted.items()
        },
        "that is the ideal": {name: [float(n) for n in counts] for name in links},
    }


def test_scaling_ideal(runs, probe):
    """Second figure: the ideal, n times as fast on n GPUs, stands beside them"""
    for rank, _, given, seen, words in looked_at(runs, probe, SCALING, probe.scaling_arguments):
        straight = [line for line in lines_of(seen) if is_ideal(rank, line, given["max_n"])]
        wanted, actual = f"a line on which y is x, from 1 to {given['max_n']}", listed_lines(seen)
        rank.expect(straight, f"the ideal in {words}", wanted, f"no such line; there are {actual}")


def is_ideal(rank, line, most):
    x, y = points(line)
    if len(x) < 2 or not holds(rank.expect_close, y, x, ""):
        return False
    return line["endless"] or (x[0].item() <= 1 and x[-1].item() >= most)


def test_scaling_words(runs, probe):
    """Second figure: labels with the links' names, a legend, axis labels, a title"""
    for rank, _, given, seen, words in looked_at(runs, probe, SCALING, probe.scaling_arguments):
        judge_words(rank, seen, words, given["links"])


def test_defaults(runs, probe):
    """Both figures can be had without arguments, whatever came before, and n is 8 where it is left out"""
    for family, arguments in ((OVERHEAD, probe.overhead_arguments), (SCALING, probe.scaling_arguments)):
        for run in runs(family, recorded=("defaults",)):
            for rank in run:
                seen = figure(rank, "defaults", f"{FUNCTION[family]}()")
                labelled = [line for line in lines_of(seen) if not line["label"].startswith("_") and len(line["x"]) > 1]
                rank.expect(labelled, f"{FUNCTION[family]}()", "labelled lines", f"{listed_lines(seen)}")
                earlier = [name for call in ("no display", "first") for name in arguments(rank.secret, call)["links"]]
                strange = [name for name in earlier if named(seen, name)]
                subject = f"{FUNCTION[family]}() after calls with links"
                rank.expect(not strange, subject, "no line of theirs", f"lines of {', '.join(strange)}")
        for run in runs(family, recorded=("defaults again",)):
            for rank in run:
                first, again = (figure(rank, name, f"{FUNCTION[family]}()") for name in ("defaults", "defaults again"))
                same_drawing(rank, again, first, f"{FUNCTION[family]}() once more, after calls with links")
    for run in runs(OVERHEAD, recorded=("n is 8",)):
        for rank in run:
            left_out, of_eight = (figure(rank, name, FUNCTION[OVERHEAD]) for name in ("n left out", "n is 8"))
            subject = "the first figure with n left out, beside that with n=8"
            links = probe.overhead_arguments(rank.secret, "of eight")["links"]
            whole = len(drawn(of_eight)) >= len(links)  # with fewer lines, other checks say so
            alike = not whole or drawn(left_out) == drawn(of_eight)
            rank.expect(alike, subject, "the same lines", "other ones")


def drawn(seen):
    """The points of all lines, in an order that does not depend on the links'."""
    return sorted((line["x"], line["y"]) for line in lines_of(seen))


def test_png(runs, probe):
    """A path gets a PNG of the figure, and without one nothing is written"""
    kinds = ["a str", "a pathlib.Path"]
    overhead, scaling = probe.overhead_arguments, probe.scaling_arguments
    for family, name, (first, other), arguments in (
        (OVERHEAD, "overhead.png", kinds, overhead),
        (SCALING, "scaling.png", kinds[::-1], scaling),
    ):
        for run in runs(family):
            for rank in run:
                figure(rank, "second", f"{FUNCTION[family]} with {first} for its path")
                rank.expect_equal(rank.read("no file", list[str]), [], "files that were written without a path")
                written = f"files that {FUNCTION[family]} wrote where the path is"
                rank.expect_equal(rank.read("files", list[str]), [name], f"{written} {first}")
                expect_picture(rank, rank.read("picture", Picture), name)
                expect_seen(rank, rank.read("second", Figure), arguments(rank.secret, "second")["links"], name)
                figure(rank, "third", f"{FUNCTION[family]} with {other} for its path")
                more = rank.read("further files", list[str])
                rank.expect_equal(more, [f"plots/further.{name}"], f"{written} {other}")


LEGEND = 0.03
"""The least share of what is to be seen that a legend has; with three lines it has four times as much."""
MISSING = 0.002
"""The share of what is to be seen that may be at other places. Of a title among a grid's lines it is three times as
much, of a figure that is drawn twice there is none."""


def expect_picture(rank, seen, name):
    signature = b"\x89PNG\r\n\x1a\n"
    rank.expect(seen["signature"] == signature, f"the first bytes of {name}", repr(signature), repr(seen["signature"]))
    size = f"{seen['width']} × {seen['height']}"
    rank.expect(min(seen["width"], seen["height"]) >= 100, f"the size of {name}", "at least 100 × 100 pixels", size)
    share = seen["detail"] / seen["wanted"] if seen["wanted"] else 0.0
    whole = "what the returned figure shows"
    rank.expect(share > 0.75, f"the picture in {name}", whole, f"{share:.0%} of it; was it saved before it was drawn?")
    part = f"{seen['within']:.0%} of it, the rest is outside"
    rank.expect(seen["within"] > 0.5, f"the legend in the picture in {name}", "the legend", part)
    has_legend = seen["wanted"] - seen["bare"] > LEGEND * seen["wanted"]
    complete = not has_legend or seen["detail"] > (seen["wanted"] + seen["bare"]) / 2
    early = "was it saved before the last line, label or scale, or before the legend?"
    rank.expect(complete, f"the picture in {name}", whole, f"{share:.0%} of it; {early}")
    late = f"{seen['missing']:.1%} of it are not there, or at other places; {early}"
    rank.expect(seen["missing"] < MISSING, f"the picture in {name}", whole, late)


def expect_seen(rank, seen, links, name):
    """The lines of the links, a title and the axes' labels are to be seen, where there are such."""
    hidden = rank.read("picture", Picture)["unseen"]
    hint = "What is transparent, or as white as what it is drawn on, is in the figure and not in the picture."
    for link in links:
        lines = named(seen, link)
        shown = not lines or any(line["label"].strip() not in hidden for line in lines)
        rank.expect(shown, f"the line of {link!r} in {name}", "to be seen", "nothing of it", hint=hint)
    titles = seen["titles"]
    shown = not titles or any(title.strip() not in hidden for title in titles)
    rank.expect(shown, f"the title in {name}", "to be seen", "nothing of it", hint=hint)
    for label in (label for axes in axes_of(seen, links) for label in axes["labels"]):
        rank.expect(label not in hidden, f"the label {label!r} in {name}", "to be seen", "nothing of it", hint=hint)


def test_leaves(runs):
    """matplotlib is left as it was: its backend, pyplot's figures and the settings"""
    for family in (OVERHEAD, SCALING):
        for run in runs(family):
            for rank in run:
                states = rank.read("states", dict[str, State])
                wanted = {"at the import", "without a display", "before", "after"}
                rank.expect_equal(sorted(states), sorted(wanted), "the states that the grader saw")
                first = {"backend": rank.read("backend at first", str), "figures": [], "current": True, "settings": []}
                same_state(rank, states["at the import"], first, "after the import")
                lone = {**states["at the import"], "backend": "tkagg"}
                same_state(rank, states["without a display"], lone, f"after {FUNCTION[family]}")
                same_state(rank, states["after"], states["before"], f"after {FUNCTION[family]}")
                figure(rank, "first", FUNCTION[family])


def same_state(rank, seen, wanted, when):
    rank.expect_equal(seen["backend"], wanted["backend"], f"matplotlib's backend {when}")
    rank.expect_equal(seen["figures"], wanted["figures"], f"pyplot's open figures {when}")
    rank.expect(seen["current"], f"pyplot's current figure {when}", "the caller's own", "another one")
    rank.expect_equal(seen["settings"], wanted["settings"], f"matplotlib's changed settings {when}")


def test_no_display(runs):
    """Both are drawn where there is no display, whatever backend the caller has chosen"""
    for family in (OVERHEAD, SCALING):
        for run in runs(family, recorded=("no display",)):
            for rank in run:
                hint = "A Figure of its own needs no backend; one of pyplot's asks the backend for a window."
                seen = rank.read("no display", Figure)
                rank.expect_success(seen, f"{FUNCTION[family]} with backend TkAgg and no display", hint=hint)
                figure(rank, "no display", f"{FUNCTION[family]} with backend TkAgg and no display")


class Called(Attempt):
    """What a call raised, and which of its arguments it changed."""

    changed: list[str]


def test_apart(runs, probe):
    """Each call has its own figure of what its arguments hold then, in threads too, and leaves them as they were"""
    for family in (OVERHEAD, SCALING):
        for run in runs(family, recorded=("one figure for both",)):
            for rank in run:
                same, subject = rank.read("one figure for both", bool), f"{FUNCTION[family]}(), called twice"
                rank.expect(not same, subject, "two figures", "the same one")
        for run in runs(family, recorded=("side by side",)):
            for rank in run:
                first, second = (figure(rank, name, FUNCTION[family]) for name in ("first", "second"))
                later = figure(rank, "first at the end", FUNCTION[family])
                same_drawing(rank, later, first, "the figure of the first call, after further ones")
                pair = rank.read("side by side", list[Figure])
                rank.expect_equal(len(pair), 2, "the number of threads")
                for seen, alone in zip(pair, (first, second), strict=True):
                    subject = "a figure drawn in a thread, while another is drawn"
                    rank.expect_success(seen, subject)
                    same_drawing(rank, seen, alone, subject)
        for run in runs(family, recorded=("arguments",)):
            for rank in run:
                seen = rank.read("arguments", Called)
                rank.expect_success(seen, FUNCTION[family])
                changed = ", ".join(seen["changed"])
                rank.expect(not changed, f"arguments that {FUNCTION[family]} has changed", "none", changed)
    judge_changed(runs, OVERHEAD, overhead_curves, probe.overhead_arguments, probe.contents)
    judge_changed(runs, SCALING, scaling_curves, probe.scaling_arguments, probe.contents)


def judge_changed(runs, family, curves, arguments, contents):
    """Each figure is of what the same dict and the same list held in its call."""
    for run in runs(family, recorded=("changed in place",)):
        for rank in run:
            held, figures = contents(arguments(rank.secret, "changed")), rank.read("changed in place", list[Figure])
            rank.expect_equal(len(figures), len(held), "the number of calls with the same dict")
            judge_calls(rank, PLACE[family], curves, held, figures)


def judge_calls(rank, place, curves, held, figures):
    """Where the first figure is wrong, other checks say so."""
    (_, before), *later = held.items()
    wanted, mistakes = curves(**before)
    if not holds(judge_curves, rank, figures[0], "", drawn_over(before), wanted, {}, partial(as_tensors, mistakes)):
        return
    for (words, now), seen in zip(later, figures[1:], strict=True):
        subject = f"{place} for {words} since the last call"
        rank.expect_success(seen, subject)
        for name in before["links"].keys() - now["links"].keys():
            rank.expect(not named(seen, name), subject, f"no line of {name!r}", f"{listed_lines(seen)}")
        old = {"those are its points of the last call": dict(zip(now["links"], wanted.values(), strict=True))}
        wanted, _ = curves(**now)
        judge_curves(rank, seen, subject, drawn_over(now), wanted, {}, partial(as_tensors, old))
        before = now


def same_drawing(rank, seen, wanted, subject):
    """The same lines, as many of them and with the same points and labels."""
    labels = [[line["label"] for line in lines_of(one)] for one in (seen, wanted)]
    rank.expect_equal(*labels, f"{subject}: the lines' labels")
    for line, other in zip(lines_of(seen), lines_of(wanted), strict=True):
        same = (line["x"], line["y"]) == (other["x"], other["y"])
        rank.expect(same, f"{subject}: the line {line['label']!r}", "the points that it should have", "other ones")
