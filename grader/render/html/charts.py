"""Drawings of the steps that a probe has marked: for each region a row a rank, with idle time between them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from grader import timeline
from grader.render.html.axis import Axis, Piece
from grader.render.html.events import LETTERS, Event, step_of
from grader.render.html.shapes import Bar, Chart, Row

LEFT, RIGHT = 96.0, 916.0
"""Where steps are drawn: right of the ranks' names, left of how much each was idle."""
TOP, ROW, PAD = 40.0, 26.0, 3.0
LETTER, NARROWEST = 6.3, 1.5
MOST = 12
"""Charts of one run."""


def charts(bands: Sequence[timeline.Band], most: int) -> Iterator[Chart]:
    """The first regions with steps, as long as no rank has more steps in them than `most`."""
    found = timeline.schedules(bands)[:MOST]
    longest = accumulate(max(map(len, schedule.rows.values())) for schedule in found)
    for schedule, steps in zip(found, longest, strict=True):
        if steps > most:
            return
        yield _chart(schedule)


def _chart(schedule: timeline.Schedule) -> Chart:
    start, length = schedule.start, max(schedule.end - schedule.start, 1e-6)
    scale = Axis(pieces=(Piece(start=0.0, end=length, left=LEFT, right=RIGHT, cut=False),))
    rows = []
    for place, (rank, steps) in enumerate(schedule.rows.items()):
        y = TOP + place * ROW
        bars = tuple(_bar(step_of(step), start, scale, y + PAD) for step in steps)
        idle = f"idle {100 * schedule.idle(rank):.0f} %"
        rows.append(Row(rank=rank, y=y, height=ROW, bars=bars, idle=idle))
    return Chart(name=schedule.name, height=TOP + len(rows) * ROW + 6, axis=scale, rows=tuple(rows), right=RIGHT)


def _bar(event: Event, start: float, scale: Axis, y: float) -> Bar:
    x = scale.x(event.start - start)
    width = max(NARROWEST, scale.x(event.end - start) - x)
    return Bar(
        event=event, x=x, y=y, width=width, height=ROW - 2 * PAD, label=_label(event, width), label_x=x + width / 2
    )


def _label(event: Event, width: float) -> str:
    """F3 for "forward 3", where there is room; else nothing."""
    word, _, rest = event.name.partition(" ")
    text = f"{LETTERS.get(word, word)}{rest}"
    return text if len(text) * LETTER + 3 <= width else ""
