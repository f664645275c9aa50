"""Runs in the rank: asks the seven formulas many questions, and takes the two figures apart.

What is asked comes from the rank's secret, so that nobody can have the answers beforehand. Nothing here knows them.
matplotlib is imported where it is needed, for the judge reads this file as well and needs none.
"""

import contextlib
import copy
import functools
import io
import threading
from pathlib import Path

from grader.kit.values import number, random_for, short, token

# -- the formulas -----------------------------------------------------------------------------------------------------

DRAWN = 16
GROUPS = {
    "communication": ["all_reduce_bytes", "all_reduce_seconds", "communication_efficiency", "tensor_parallel_bytes"],
    "shares": ["amdahl_speedup", "model_state_bytes", "pipeline_utilization"],
}
"""The formulas by the run that asks them."""


def questions(secret, name):
    """The arguments of many calls of a formula: the known ones first, then some that are drawn."""
    draw = random_for(secret, name)
    return [list(known) for known in KNOWN[name]] + [DRAW[name](draw) for _ in range(DRAWN)]


def size(draw):
    """Bytes or parameters, whole or not."""
    return draw.choice([draw.randrange(1, 10**12), draw.uniform(1.0, 1e12), draw.randrange(1, 1000)])


def ranks(draw):
    return draw.choice([draw.randrange(1, 10), draw.randrange(10, 2000)])


def bandwidth(draw):
    return 10 ** draw.uniform(7, 12)


def latency(draw):
    return 10 ** draw.uniform(-7, 2)


KNOWN = {
    "all_reduce_bytes": [(0, 4), (1e9, 1), (1000, 2), (400e6, 8), (7, 3)],
    "all_reduce_seconds": [(0, 4, 1e9), (1e9, 1, 1e9), (8e9, 2, 4e9), (2e9, 16, 12.5e9), (7, 3, 2.0), (7, 3, 0.5)],
    "communication_efficiency": [(10e-3, 8e-3), (0, 2.5), (0.25, 0), (3, 1), (0.25, 0.75), (3e-9, 1e-9)],
    "tensor_parallel_bytes": [
        *((12, 8, 512, 512), (1, 1, 1, 1), (1, 2, 3, 5), (12, 8, 512, 512, 4), (3, 7, 5, 9, 0.5)),
        (96, 1536, 2048, 12288),
        *((0, 8, 512, 512), (12, 0, 512, 512), (12, 8, 0, 512), (12, 8, 512, 0), (3, 2, 5, 7, 0)),
    ],
    "amdahl_speedup": [(0, 7), (1, 7), (0.5, 1), (0.9, 8), (1, 1)],
    "model_state_bytes": [
        *((100e6, 2, stage) for stage in (0, 1, 2, 3)),
        *((10e9, 8, stage) for stage in (0, 1, 2, 3)),
        (5, 1, 3),
        (0, 4, 1),
    ],
    "pipeline_utilization": [(2, 1), (2, 4), (2, 8), (1, 5), (4, 1)],
}
DRAW = {
    "all_reduce_bytes": lambda draw: [size(draw), ranks(draw)],
    "all_reduce_seconds": lambda draw: [size(draw), ranks(draw), bandwidth(draw)],
    "communication_efficiency": lambda draw: [10 ** draw.uniform(-4, 2), 10 ** draw.uniform(-4, 2)],
    "tensor_parallel_bytes": lambda draw: [
        *(draw.randrange(1, 200) for _ in range(4)),
        *draw.choice([[], [draw.randrange(1, 9)], [draw.uniform(0.1, 8.0)]]),
    ],
    "amdahl_speedup": lambda draw: [draw.uniform(0.01, 0.999), ranks(draw)],
    "model_state_bytes": lambda draw: [size(draw), ranks(draw), draw.randrange(4)],
    "pipeline_utilization": lambda draw: [draw.randrange(1, 65), draw.randrange(1, 257)],
}


def too_few(draw):
    """Numbers of ranks below 1."""
    return 0, -draw.randrange(1, 9), draw.uniform(0.1, 0.9)


def delays(secret):
    """Calls of `all_reduce_seconds` with a latency, which may be 0."""
    draw = random_for(secret, "delays")
    known = [[0, 4, 1e9, 0.001], [1e9, 1, 1e9, 5.0], [8e9, 2, 4e9, 0.5], [7, 3, 2.0, 0.25], [7, 3, 2.0, 0]]
    return known + [[*DRAW["all_reduce_seconds"](draw), latency(draw)] for _ in range(DRAWN)]


BAD = {
    "negative sizes and times": {
        "all_reduce_bytes": lambda draw: [[-size(draw), ranks(draw)], [-1e-3, 1]],
        "all_reduce_seconds": lambda draw: [
            [size(draw), ranks(draw), bandwidth(draw), -latency(draw)],
            [size(draw), 1, bandwidth(draw), -1e-9],
            [-size(draw), ranks(draw), bandwidth(draw)],
            [-1e3, 4, 1e9, 1.0],
        ],
        "communication_efficiency": lambda draw: [
            [-draw.uniform(0.1, 1), 2.0],
            [2.0, -draw.uniform(0.1, 1)],
            [-draw.uniform(0.1, 1), -draw.uniform(0.1, 1)],
        ],
        "model_state_bytes": lambda draw: [[-size(draw), ranks(draw), stage] for stage in range(4)],
        "tensor_parallel_bytes": lambda draw: [
            [-draw.randrange(1, 99) if other in places else draw.randrange(1, 99) for other in range(5)]
            for places in [*((place,) for place in range(5)), *((place, (place + 1) % 5) for place in range(5))]
        ],
    },
    "counts below 1": {
        "all_reduce_bytes": lambda draw: [[size(draw), few] for few in too_few(draw)],
        "all_reduce_seconds": lambda draw: [[size(draw), few, bandwidth(draw)] for few in too_few(draw)],
        "amdahl_speedup": lambda draw: [[draw.random(), few] for few in too_few(draw)],
        "model_state_bytes": lambda draw: [[size(draw), few, stage] for few in (0, -2, 0.5) for stage in range(4)],
        "pipeline_utilization": lambda draw: [
            *([0, 4], [4, 0], [0, 0], [-draw.randrange(2, 9), 40], [40, -3], [-4, -3]),
            *([draw.uniform(0.1, 0.9), 4], [4, draw.uniform(0.1, 0.9)]),
        ],
    },
    "p, bandwidth and stage": {
        "amdahl_speedup": lambda draw: [
            *([-draw.uniform(0.001, 1), 4], [1 + draw.uniform(0.001, 1), 4], [1.5, 1]),
            *([-1e-5, 4], [1.00001, 4]),
        ],
        "all_reduce_seconds": lambda draw: [[size(draw), ranks(draw), 0], [0, 1, 0.0]],
        "model_state_bytes": lambda draw: [
            *([size(draw), ranks(draw), stage] for stage in (4, 5)),
            [size(draw), 1, 4],
        ],
    },
}
"""Impossible input by its kind, and by the formula that is asked: before anything else, in this order, so that it is
what a formula sees first."""


def refused(secret, kind, name):
    return BAD[kind][name](random_for(secret, kind, name))


def communication(rank):
    student = rank.student
    functions = [student.all_reduce_bytes, student.all_reduce_seconds]
    functions += [student.communication_efficiency, student.tensor_parallel_bytes]
    ask_all(rank, "communication", functions)
    calls = delays(rank.secret)
    slow = [asked(rank, student.all_reduce_seconds, *call[:3], latency=call[3]) for call in calls]
    rank.record("with latency", slow)


def shares(rank):
    student = rank.student
    ask_all(rank, "shares", [student.amdahl_speedup, student.model_state_bytes, student.pipeline_utilization])


def ask_all(rank, group, functions):
    for name, function in zip(GROUPS[group], functions, strict=True):
        for kind, formulas in BAD.items():
            if name in formulas:
                calls = refused(rank.secret, kind, name)
                rank.record(f"{kind}: {name}", [asked(rank, function, *call) for call in calls])
        rank.record(name, [asked(rank, function, *call) for call in questions(rank.secret, name)])


def asked(rank, function, *args, **named):
    """What a formula said, as a float, or what it raised."""
    outcome = rank.attempt(function, *args, **named)
    spoken = isinstance(outcome.value, str | bytes | bool)
    answer = None if spoken else number(outcome.value)
    return {**outcome.described(), "answer": answer, "what": short(outcome.value)}


# -- the figures ------------------------------------------------------------------------------------------------------

LOOKED_AT = ("no display", "first")
"""Calls whose figure is looked at: the first one of all, and one that was made beside a figure of pyplot's."""


def names(secret, *place):
    """Names of links, none a part of another. In figures that are looked at, one is long."""
    way = " between the racks of the hall, by way of two switches" if place[-1] in LOOKED_AT else ""
    kinds = ("Copper", f"Fibre{way}", "Bus")
    return [f"{kind} {token(secret, 'name', kind, *place):06x}" for kind in kinds]


def overhead_arguments(secret, call):
    draw = random_for(secret, "overhead", call)
    sizes = sorted(10 ** draw.uniform(5, 12) for _ in range(draw.randrange(4, 9)))
    links = {name: bandwidth(draw) for name in names(secret, "overhead", call)}
    first, *_, last = links
    links |= {last: links[first]} if call == LOOKED_AT[0] else {}  # two links may be as fast
    n = 1 if call == "third" else draw.choice([2, 3, 5, 6, 7, 12, 24, 48])
    return {"model_sizes": sizes, "links": links, "n": n}


def contents(given):
    """What one dict and one list hold, call by call: by words for what the caller has changed since the last call, the
    arguments. One thing alone is changed each time, and nothing gets longer or shorter."""
    held = {"what came first": given}
    *others, (first, start), (last, end) = [*given["links"].items()]
    links = {**dict(others), first: end, last: start}
    held["a dict in which two links have changed places"] = given = {**given, "links": links}
    links = {**dict(others), first: end, f"Belt {last.split()[-1]}": start}
    held["a dict in which a link has got another name"] = given = {**given, "links": links}
    if "model_sizes" in given:
        smallest, second, *rest = given["model_sizes"]
        sizes = [smallest, (smallest * second) ** 0.5, *rest]
        held["a list in which one size has become another"] = {**given, "model_sizes": sizes}
    return held


def impossible(given):
    """Arguments with which a figure has a number that there is none of, for its last link."""
    wrong = 0.0 if "model_sizes" in given else 1.5
    return {**given, "links": {**given["links"], list(given["links"])[-1]: wrong}}


def scaling_arguments(secret, call):
    draw = random_for(secret, "scaling", call)
    links, most = {name: draw.uniform(0.3, 0.999) for name in names(secret, "scaling", call)}, draw.randrange(5, 40)
    first, *_, last = links
    links |= {last: links[first]} if call == LOOKED_AT[0] else {last: 0.0}  # nothing of the work is parallel
    links |= {first: 1.0} if call == "third" else {}  # all of it is, and the line is that of the ideal
    return {"links": links, "max_n": most + 1500 if call == LOOKED_AT[0] else most}


def overhead_figure(rank):
    draw = rank.student.all_reduce_overhead_figure

    def own(model_sizes, links, n):
        said = rank.student.all_reduce_seconds
        return {name: [number(said(size, n, speed)) for size in model_sizes] for name, speed in links.items()}

    record_own(rank, own, overhead_arguments)
    show(rank, draw, overhead_arguments, str(rank.scratch / "overhead.png"))
    of_eight = overhead_arguments(rank.secret, "of eight")
    rank.record("n is 8", described(rank.attempt(draw, **{**of_eight, "n": 8})))
    del of_eight["n"]
    rank.record("n left out", described(rank.attempt(draw, **of_eight)))


def scaling_figure(rank):
    draw = rank.student.scaling_efficiency_figure

    def own(links, max_n):
        said = rank.student.amdahl_speedup
        return {name: [number(said(p, n)) for n in range(1, max_n + 1)] for name, p in links.items()}

    record_own(rank, own, scaling_arguments)
    show(rank, draw, scaling_arguments, rank.scratch / "scaling.png")


def record_own(rank, own, arguments):
    """What the student's own formulas say, for the figures that are looked at."""
    said = {call: rank.attempt(own, **arguments(rank.secret, call)).value for call in LOOKED_AT}
    rank.record("own numbers", {call: numbers or {} for call, numbers in said.items()})


def show(rank, draw, arguments, path):
    """Calls of one figure's function, and what each leaves behind. `path` is a str or a Path; a further call has the
    other kind."""
    given = functools.partial(arguments, rank.secret)
    rank.record("backend at first", backend_at_first())
    states, before = {"at the import": state()}, files()
    with no_display():
        alone = rank.attempt(draw, **given("no display"))
        states["without a display"] = state()
    rank.record("no display", described(alone))
    with standing_figure() as standing:
        states["before"] = state(standing)
        first = rank.attempt(draw, **given("first"))
        rank.record("first", described(first))
        rank.record("no file", sorted(files() - before))
        second = rank.attempt(draw, path, **given("second"))
        rank.record("second", described(second))
        rank.record("files", sorted(files() - before))
        further = rank.scratch / "plots" / f"further.{Path(path).name}"
        further.parent.mkdir()
        third = rank.attempt(draw, further if isinstance(path, str) else str(further), **given("third"))
        rank.record("third", described(third))
        inside = {f"plots/{one.name}" for one in further.parent.iterdir()}
        rank.record("further files", sorted(inside | files() - before - {Path(path).name, "plots"}))
        defaults = rank.attempt(draw)
        rank.record("defaults", described(defaults))
        rank.record("first at the end", described(first))
        rank.attempt(draw, **impossible(given("first")))
        states["after"] = state(standing)
        pair = interleaved(rank, draw, given("first"), given("second"))
        rank.record("side by side", [described(one) for one in pair])
    rank.record("states", states)
    rank.record("picture", picture(Path(path), second.value))
    rank.record("arguments", after_a_call(rank, draw, given("arguments"), further))
    rank.record("changed in place", changed_in_place(rank, draw, given("changed")))
    again = rank.attempt(draw)
    rank.record("defaults again", described(again))
    rank.record("one figure for both", defaults.value is not None and defaults.value is again.value)


def after_a_call(rank, draw, given, path):
    """Which arguments are other ones after a call than before. Sizes come in no order that code might bring them into:
    the largest goes to the front, and the smallest to the end."""
    if "model_sizes" in given:
        smallest, *rest, largest = given["model_sizes"]
        given["model_sizes"] = [largest, *rest, smallest]
    before = copy.deepcopy(given)
    outcome = rank.attempt(draw, path, **given)
    same = {name: in_order(given[name]) == in_order(value) for name, value in before.items()}
    return {**outcome.described(), "changed": [name for name in same if not same[name]]}


def changed_in_place(rank, draw, given):
    """The figures of calls with the same dict and the same list, which hold something else in each."""
    kept, figures = copy.deepcopy(given), []
    for now in contents(given).values():
        kept["links"].clear()
        kept["links"].update(now["links"])
        if "model_sizes" in kept:
            kept["model_sizes"][:] = now["model_sizes"]
        figures.append(described(rank.attempt(draw, **kept)))
    return figures


def in_order(argument):
    return [*argument.items()] if isinstance(argument, dict) else argument


TITLES = ("left", "center", "right")


def described(outcome):
    """A figure as plain data; what was raised, where that is what came."""
    from matplotlib.figure import Figure

    figure = outcome.value
    seen = {**outcome.described(), "kind": type(figure).__name__, "axes": [], "titles": [], "legend": [], "beside": []}
    if isinstance(figure, Figure):
        legends = [one for one in [*(axes.get_legend() for axes in figure.axes), *figure.legends] if one]
        titles = [axes.get_title(loc=place) for axes in figure.axes for place in TITLES]
        seen["kind"] = "Figure"
        seen["axes"] = [axes_described(axes, figure) for axes in figure.axes]
        seen["titles"] = [str(title) for title in (*titles, figure.get_suptitle()) if str(title).strip()]
        seen["legend"] = [str(text.get_text()) for legend in legends for text in legend.get_texts()]
        seen["beside"] = [beside(handle, figure) for legend in legends for handle in legend.legend_handles]
    return seen


def beside(handle, figure):
    """The labels of the lines that look like what stands beside a text of a legend."""
    lines = [line for axes in figure.axes for line in axes.lines]
    return [str(line.get_label()) for line in lines if look_of(line) == look_of(handle) is not None]


def look_of(artist):
    """None of what is no line."""
    from matplotlib.colors import to_hex
    from matplotlib.lines import Line2D

    if isinstance(artist, Line2D):
        return [to_hex(artist.get_color()), artist.get_linestyle(), artist.get_marker()]
    return None


def axes_described(axes, figure):
    labels = [axes.get_xlabel() or figure.get_supxlabel(), axes.get_ylabel() or figure.get_supylabel()]
    return {
        "lines": [line_described(line) for line in axes.lines if line.get_visible()],
        "scales": [axes.get_xscale(), axes.get_yscale()],
        "labels": [str(label).strip() for label in labels],
    }


def line_described(line):
    """Label and points, none where they are no numbers. `endless` is a line through two points and beyond, as axline
    draws it."""
    endless, x, y = hasattr(line, "get_xy1"), [], []
    with contextlib.suppress(TypeError, ValueError):
        if endless:
            begin = line.get_xy1()
            end = line.get_xy2() or (begin[0] + 1, begin[1] + line.get_slope())
            x, y = [[float(first), float(second)] for first, second in zip(begin, end, strict=True)]
        else:
            x, y = [[float(one) for one in data] for data in (line.get_xdata(orig=False), line.get_ydata(orig=False))]
    return {"label": str(line.get_label()), "x": x, "y": y, "endless": endless}


def files():
    """What lies in the rank's own folder, but for what libraries hide there."""
    return {path.name for path in Path.cwd().iterdir() if not path.name.startswith((".", "__"))}


# -- what must stay as it is ------------------------------------------------------------------------------------------


def state(standing=None):
    """The backend, pyplot's figures, whether the standing one is still the current one, and matplotlib's settings that
    are not as it was imported with. The backend may be None: it is chosen when a window is first wanted."""
    import matplotlib
    from matplotlib import pyplot

    now, original = matplotlib.rcParams, matplotlib.rcParamsOrig
    numbers = pyplot.get_fignums()
    current = standing is None or bool(numbers and pyplot.gcf() is standing and pyplot.gca() is standing.axes[0])
    return {
        "backend": str(matplotlib.get_backend(auto_select=False)).lower(),
        "figures": numbers,
        "current": current,
        "settings": sorted(name for name in now if "backend" not in name and repr(now[name]) != repr(original[name])),
    }


def backend_at_first():
    """The backend that matplotlib was imported with, as `state` has it."""
    import matplotlib

    named = dict.__getitem__(matplotlib.rcParamsOrig, "backend")
    return str(named if isinstance(named, str) else None).lower()


@contextlib.contextmanager
def no_display():
    """A caller whose backend opens windows, where there is no display. pyplot cannot make any figure now."""
    import matplotlib.pyplot  # whoever imports it later than the backend is named may change that

    matplotlib.rcParams["backend"] = "tkagg"
    yield


@contextlib.contextmanager
def standing_figure():
    """A figure of the caller's own that is pyplot's current one, with a backend that few would choose."""
    from matplotlib import pyplot

    pyplot.switch_backend("svg")
    standing = pyplot.figure()
    standing.subplots()
    yield standing


class Looked(dict):
    """A dict that calls `look` whenever somebody looks into it."""

    look = staticmethod(lambda: None)

    def __iter__(self):
        self.look()
        return super().__iter__()

    def __getitem__(self, name):
        self.look()
        return super().__getitem__(name)

    def keys(self):
        self.look()
        return super().keys()

    def values(self):
        self.look()
        return super().values()

    def items(self):
        self.look()
        return super().items()


PATIENCE = 2
"""Seconds that one thread waits for the other, in case the code holds a lock meanwhile. Only the order rests on it."""


def interleaved(rank, draw, ours, theirs):
    """Two calls in two threads that take turns: the second begins when the first looks at its links, and goes on from
    there when the first is done. Never two at once, for matplotlib promises nothing then."""
    outcomes, begun, done = {}, threading.Event(), threading.Event()
    ours, theirs = ({**one, "links": Looked(one["links"])} for one in (ours, theirs))

    def second():
        outcomes["second"] = rank.attempt(draw, **theirs)
        begun.set()

    thread = threading.Thread(target=second, daemon=True)

    def first_looks():
        ours["links"].look = lambda: None
        thread.start()
        begun.wait(PATIENCE)

    def second_looks():
        theirs["links"].look = lambda: None
        begun.set()
        done.wait(PATIENCE)

    ours["links"].look, theirs["links"].look = first_looks, second_looks
    outcomes["first"] = rank.attempt(draw, **ours)
    done.set()
    if thread.ident is None:
        thread.start()
    thread.join()
    return outcomes["first"], outcomes["second"]


# -- the picture ------------------------------------------------------------------------------------------------------


def picture(path, figure):
    """The first bytes of the file that was saved, its size in pixels, and how much there is to be seen in it, beside
    what the figure itself shows at that size, and what it would without its legends; which part of a legend is in it,
    and which part of what the figure shows is not where it should be; and what is in the figure, and not to be seen."""
    from matplotlib.figure import Figure

    data = path.read_bytes() if path.is_file() else b""
    seen = {"signature": data[:8], "width": 0, "height": 0, "detail": 0.0, "wanted": 0.0, "bare": 0.0}
    seen |= {"within": 1.0, "missing": 0.0, "unseen": []}
    with contextlib.suppress(Exception):  # a file that is no picture
        pixels = decoded(data)
        seen |= {"width": pixels.shape[1], "height": pixels.shape[0], "detail": detail(pixels)}
        if isinstance(figure, Figure):
            options = saved_like(figure, pixels)
            seen["wanted"] = detail(drawn(figure, options))
            seen["missing"] = missing(figure, pixels)
            legends = [*filter(None, (axes.get_legend() for axes in figure.axes)), *figure.legends]
            if "bbox_inches" not in options:
                seen["within"] = max((within(legend, figure) for legend in legends), default=1.0)
            for legend in legends:
                legend.set_visible(False)
            seen["bare"] = detail(drawn(figure, options))
            seen["unseen"] = unseen(figure)
    return seen


def unseen(figure):
    """The labels of lines, and the titles and labels of axes, that change no pixel where they are drawn. Each is drawn
    alone over a drawing of all the rest, as it stood when the figure was drawn last."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    words = {axes.get_title(loc=place) for axes in figure.axes for place in TITLES}
    words |= {label for axes in figure.axes for label in (axes.get_xlabel(), axes.get_ylabel())}
    words |= {figure.get_suptitle(), figure.get_supxlabel(), figure.get_supylabel()}
    artists = [(str(line.get_label()), line) for axes in figure.axes for line in axes.lines if line.get_visible()]
    texts = figure.findobj(lambda one: isinstance(one, Text) and one.get_visible() and one.get_text() in words - {""})
    artists += [(text.get_text(), text) for text in texts]
    alphas = [artist.get_alpha() for _, artist in artists]
    for _, artist in artists:
        artist.set_alpha(0.0)  # and not invisible, for that moves titles
    figure.set_layout_engine("none")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    rest, before = canvas.copy_from_bbox(figure.bbox), bytes(canvas.buffer_rgba())
    shown = set()
    for (word, artist), alpha in zip(artists, alphas, strict=True):
        artist.set_alpha(alpha)
        artist.draw(canvas.get_renderer())
        if bytes(canvas.buffer_rgba()) != before:
            shown.add(word)
        canvas.restore_region(rest)
    return sorted({word.strip() for word, _ in artists if word not in shown})


def within(legend, figure):
    """Which part of a legend stands on the figure's canvas."""
    box, canvas = legend.get_window_extent(), figure.bbox
    common = type(canvas).intersection(box, canvas)
    return float(common.width * common.height / (box.width * box.height)) if common else 0.0


def saved_like(figure, pixels):
    """How to save a figure for a picture of as many pixels: whole, or cut to what is drawn in it if that fits better.
    What a legend adds may be little beside the lines of a grid, and less than what a cut takes away."""
    (height, width), (wide, high) = pixels.shape, figure.get_size_inches()
    if abs(width * high / wide - height) <= 2:
        return {"dpi": width / wide}
    box = figure.get_tightbbox()  # inches, and a margin around it: its size follows from width and height
    dpi, margin = width / (box.width + 2 * USUAL_MARGIN), USUAL_MARGIN
    if abs(box.width - box.height) > 0.2 and abs(dpi * (box.height + 2 * margin) - height) > 2:
        dpi = (width - height) / (box.width - box.height)
        margin = max((width / dpi - box.width) / 2, 0.0)
    return {"dpi": dpi, "bbox_inches": "tight", "pad_inches": margin}


USUAL_MARGIN = 0.1
"""Inches that savefig leaves around what is drawn, if it is to cut the picture to that."""


def missing(figure, pixels):
    """Which part of the edges that a figure shows has none in the picture, two pixels around. 0 where nobody knows
    where they should be: the picture is not the whole canvas at a whole number of pixels an inch, or tight layout goes
    on from where the last drawing has left it."""
    from matplotlib.layout_engine import TightLayoutEngine

    (height, width), (wide, high) = pixels.shape, figure.get_size_inches()
    dpi = round(width / wide)
    whole = abs(wide * dpi - width) < 1 and abs(high * dpi - height) < 1
    if not whole or isinstance(figure.get_layout_engine(), TightLayoutEngine):
        return 0.0
    least = edges_without(drawn(figure, {"dpi": dpi}), pixels)
    if least:  # a picture that is cut may have the canvas's shape by chance
        dpi = round(width / (figure.get_tightbbox().width + 2 * USUAL_MARGIN))
        cut = ({"dpi": dpi + more, "bbox_inches": "tight", "pad_inches": USUAL_MARGIN} for more in (-1, 0, 1))
        least = min(least, *(edges_without(drawn(figure, options), pixels) for options in cut))
    return least


def edges_without(wanted, pixels):
    if wanted.shape != pixels.shape:
        return 1.0
    around = edges(pixels)
    for _ in range(2):
        around[1:] |= around[:-1].copy()
        around[:-1] |= around[1:].copy()
        around[:, 1:] |= around[:, :-1].copy()
        around[:, :-1] |= around[:, 1:].copy()
    asked = edges(wanted)
    return float((asked & ~around).sum() / max(asked.sum(), 1))


def edges(pixels):
    """The pixels that are not like the one above or the one before, whatever the background is."""
    import numpy

    found = numpy.zeros(pixels.shape, dtype=bool)
    found[1:] |= pixels[1:] != pixels[:-1]
    found[:, 1:] |= pixels[:, 1:] != pixels[:, :-1]
    return found


def drawn(figure, options):
    """The pixels of a figure that is saved so."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", **options)
    return decoded(buffer.getvalue())


def decoded(data):
    import numpy
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return numpy.asarray(image.convert("RGBA")).view(numpy.uint32)[..., 0]


def detail(pixels):
    """How many neighbouring pixels differ, for each pixel of the rim: the same for any resolution and background."""
    edges = (pixels[1:] != pixels[:-1]).sum() + (pixels[:, 1:] != pixels[:, :-1]).sum()
    return float(edges) / sum(pixels.shape)
