"""The drawing of one run: where every bar, arrow and label stands, in units of an SVG. Pure.

A rank is a band: a row for how it ended, then lanes for what the probe named, for phases and for communication. Bars
that overlap in time lie on lanes of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from grader import timeline
from grader.model import Finished, Run
from grader.render.html.axis import Axis, axis, lasting, moment
from grader.render.html.charts import charts
from grader.render.html.events import LETTERS, PHASE, REGION, TALK, Event, ending_told, events_of
from grader.render.html.shapes import Arrow, Band, Bar, Break, Flag, Lane, Picture

WIDTH, GUTTER, MARGIN, OPEN = 1000.0, 96.0, 12.0, 60.0
"""The drawing, the rank's names on its left, what is free on its right, and the place right of the last moment where
bars end that never end."""

TOP, HEAD, GAP, PAD = 40.0, 20.0, 4.0, 9.0
LANE = {REGION: 14.0, PHASE: 18.0, TALK: 20.0}
TITLES = {REGION: "", PHASE: "phases", TALK: "communication"}
THIN, MANY, MOST_LANES = 8.0, 4, 12
"""The height of a lane where there are more than MANY of a kind, and how many there are at most."""

MOST_BANDS = 32
LETTER = 6.3
"""The width of a letter in a bar, about."""

NARROWEST = 2.5


def picture(run: Run, most: int) -> Picture:
    """The drawing of a run with at most `most` events a rank: of a run that went wrong its last, else its first."""
    ranks = timeline.timeline(run)
    shown = ranks[:MOST_BANDS]
    events = {rank.record.rank: events_of(rank, len(ranks)) for rank in shown}
    last = run.diagnosis is not None
    drawn = {rank: (list(found[-most:]) if last else list(found[:most])) for rank, found in events.items()}
    scale = _axis(ranks, [event for found in drawn.values() for event in found], timeline.length_of(run))
    bands, y = [], TOP
    for rank in shown:
        number = rank.record.rank
        band = _band(rank, drawn[number], scale, y)
        bands.append(replace(band, left_out=len(events[number]) - len(drawn[number]), last=last))
        y += bands[-1].height + GAP
    return Picture(
        height=y + 4,
        axis=scale,
        bands=tuple(bands),
        arrows=tuple(_arrows(bands)),
        breaks=tuple(_breaks(scale)),
        stuck=_stuck(shown, [event for found in events.values() for event in found], scale),
        more_ranks=len(ranks) - len(shown),
        charts=tuple(charts(shown, most)),
    )


def _axis(ranks: Sequence[timeline.Band], events: Sequence[Event], length: float) -> Axis:
    """Silence is cut only where a trace tells that it is silence."""
    never = any(event.stuck for event in events)
    right = WIDTH - MARGIN - (OPEN if never else 0)
    begins = [event.start for event in events]
    ends = [event.end for event in events if not event.open]
    moments = [*begins, *ends, length, *(rank.ended for rank in ranks)]
    busy = [(event.start, event.end) for event in events if not event.open and event.layer != REGION]
    return axis(moments, busy, GUTTER, right)


def _band(rank: timeline.Band, events: Sequence[Event], scale: Axis, y: float) -> Band:
    trace = rank.record.trace
    below = y + HEAD
    lanes: list[Lane] = []
    for layer in (REGION, PHASE, TALK):
        packed = _packed([event for event in events if event.layer == layer], scale)
        if layer == TALK and not packed:
            packed = [[]]
        high = LANE[layer] if len(packed) <= MANY else THIN
        for number, lane in enumerate(packed):
            bars = tuple(_bar(event, scale, below, high - 2) for event in lane)
            title = "" if number or trace is None else TITLES[layer]
            lanes.append(Lane(title=title, y=below, height=high, bars=bars))
            below += high
    return Band(
        rank=rank.record.rank,
        y=y,
        height=below + PAD - y,
        lanes=tuple(lanes),
        flag=_flag(rank, scale),
        left_out=0,
        last=False,
        incomplete=trace is not None and not trace.complete,
    )


def _packed(events: Sequence[Event], scale: Axis) -> list[list[Event]]:
    """The events on lanes, so that those which overlap do not cover one another."""
    free: list[float] = []
    lanes: list[list[Event]] = []
    for event in events:
        x = scale.x(event.start)
        place = next((number for number, until in enumerate(free) if until <= x + 0.5), len(free))
        if place == len(free) and place < MOST_LANES:
            free.append(0.0)
            lanes.append([])
        place = min(place, MOST_LANES - 1)
        free[place] = max(free[place], scale.x(event.end), x + NARROWEST - 0.5)
        lanes[place].append(event)
    return lanes


def _bar(event: Event, scale: Axis, y: float, high: float) -> Bar:
    x = scale.x(event.start)
    until = WIDTH - MARGIN if event.stuck else scale.x(event.end)
    width = max(NARROWEST, until - x)
    left, right = _room(x, x + width, scale)
    label = _label(event, right - left, high)
    return Bar(event=event, x=x, y=y, width=width, height=high, label=label, label_x=(left + right) / 2)


def _room(left: float, right: float, scale: Axis) -> tuple[float, float]:
    """The widest stretch of a bar that no break of the axis covers."""
    edges = [left, *(x for piece in scale.cuts for x in (piece.left, piece.right) if left < x < right), right]
    inside = any(piece.left <= left < piece.right for piece in scale.cuts)
    free = list(pairwise(edges))[inside::2]
    return max(free, key=lambda room: room[1] - room[0], default=(left, left))


def _label(event: Event, width: float, high: float) -> str:
    """The name, a letter or nothing, whatever fits."""
    if high < 11:
        return ""
    name = event.kind if event.layer == PHASE and event.kind in LETTERS else event.name
    for text in (name, LETTERS.get(event.kind, "")):
        if text and len(text) * LETTER + 8 <= width:
            return text
    letter = LETTERS.get(event.kind, "")
    return letter if letter and len(letter) * LETTER + 3 <= width else ""


def _flag(rank: timeline.Band, scale: Axis) -> Flag:
    ending, stuck = rank.record.ending, rank.wait is not None
    text, x = ending_told(rank.record), WIDTH - MARGIN if stuck else scale.x(rank.ended)
    if not stuck:
        text = f"{text} at {moment(rank.ended)}" if ending.seconds > 0 else text
    to_left = x > WIDTH / 2
    return Flag(
        x=x,
        text_x=x - 6 if to_left else x + 6,
        anchor="end" if to_left else "start",
        text=text if len(text) <= 110 else f"{text[:109]}…",
        kind="finished" if isinstance(ending, Finished) else "waits" if stuck else "failed",
    )


def _arrows(bands: Sequence[Band]) -> Iterable[Arrow]:
    bars = [bar for band in bands for lane in band.lanes for bar in lane.bars if bar.event.message]
    receives = {bar.event.message: bar for bar in bars if bar.event.kind == "recv"}
    for bar in bars:
        if bar.event.kind == "send" and (receive := receives.get(bar.event.message)):
            down = receive.y > bar.y
            yield Arrow(
                x=bar.x + min(bar.width / 2, 6),
                y=bar.y + bar.height if down else bar.y,
                to_x=receive.x + receive.width - min(receive.width / 2, 6),
                to_y=receive.y - 1 if down else receive.y + receive.height + 1,
            )


def _breaks(scale: Axis) -> Iterable[Break]:
    for piece in scale.cuts:
        text = lasting(piece.end - piece.start)
        yield Break(x=piece.left, middle=(piece.left + piece.right) / 2, right=piece.right, text=text)


def _stuck(ranks: Sequence[timeline.Band], events: Sequence[Event], scale: Axis) -> tuple[float, str] | None:
    """The last moment at which anything began or ended, where ranks then wait for good and all were traced."""
    waits = any(rank.record.ending.kind == "deadlocked" for rank in ranks)
    if not waits or any(rank.record.trace is None for rank in ranks) or not events:
        return None
    moved = [event.start for event in events] + [event.end for event in events if not event.open]
    last = max(moved)
    return scale.x(last), f"nothing moves after {moment(last)}"
