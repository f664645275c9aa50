"""Drawings of the steps that a probe has marked: for each region a row a rank, with idle time between them. Pure.

They are drawn in order and not to scale, every step as wide as any other: a step comes after the one before on its
rank, and after all whose messages had come by then. So a schedule looks as on paper, whatever else the machine did.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from grader import timeline
from grader.render.html.events import LETTERS, Event, step_of
from grader.render.html.shapes import Bar, Chart, Row

LEFT, RIGHT, WIDEST = 96.0, 916.0, 40.0
"""Where steps are drawn: right of the ranks' names, left of how much each was idle. No slot is wider than WIDEST."""
TOP, ROW, PAD = 20.0, 26.0, 3.0
LETTER, NARROWEST = 6.3, 1.5
MOST = 12
"""Charts of one run."""
Slots = dict[int, list[int]]


def charts(bands: Sequence[timeline.Band], most: int) -> Iterator[Chart]:
    """The first regions with steps, as long as no rank has more steps in them than `most`."""
    found = timeline.schedules(bands)[:MOST]
    longest = accumulate(max(map(len, schedule.rows.values())) for schedule in found)
    for schedule, steps in zip(found, longest, strict=True):
        if steps > most:
            return
        yield _chart(schedule, slots(schedule, bands))


def slots(schedule: timeline.Schedule, bands: Sequence[timeline.Band]) -> Slots:
    """The place of each rank's steps, counted from 0."""
    begins = {rank: [step.start for step in steps] for rank, steps in schedule.rows.items()}
    came = {band.record.rank: iter(_came(band, bands)) for band in bands if band.record.rank in begins}
    upcoming = {rank: next(messages, None) for rank, messages in came.items()}
    placed: Slots = {rank: [] for rank in begins}
    earliest = dict.fromkeys(begins, 0)
    for start, rank in sorted((start, rank) for rank, starts in begins.items() for start in starts):
        while (message := upcoming[rank]) and message[0] <= start:
            _, sender, sent = message
            before = placed.get(sender, [])[: bisect_right(begins.get(sender, []), sent)]
            earliest[rank] = max([earliest[rank], *(slot + 1 for slot in before[-1:])])
            upcoming[rank] = next(came[rank], None)
        placed[rank].append(earliest[rank])
        earliest[rank] += 1
    return placed


def _came(band: timeline.Band, bands: Sequence[timeline.Band]) -> list[tuple[float, int, float]]:
    """The messages that a rank received: when each had come, from whom, and when it was sent; but for those that are
    told to have come before."""
    sent = {e.message: e.start for other in bands for e in other.communications if e.operation == "send"}
    taken = [e for e in band.communications if e.operation == "recv" and e.message in sent and not e.open]
    return sorted((e.end, e.message[0], sent[e.message]) for e in taken if e.message and sent[e.message] <= e.end)


def _chart(schedule: timeline.Schedule, placed: Slots) -> Chart:
    count = 1 + max(slot for found in placed.values() for slot in found)
    width = min(WIDEST, (RIGHT - LEFT) / count)
    rows = []
    for place, (rank, steps) in enumerate(schedule.rows.items()):
        y = TOP + place * ROW
        bars = tuple(_bar(step_of(step), at, width, y + PAD) for at, step in zip(placed[rank], steps, strict=True))
        told = f"idle {100 * (1 - len(steps) / count):.0f} %"
        seen = f"{told} of the steps drawn, {100 * schedule.idle(rank):.0f} % of the time"
        rows.append(Row(rank=rank, y=y, height=ROW, bars=bars, idle=told, told=seen))
    grid = tuple(LEFT + width * slot for slot in range(count + 1)) if width > LETTER else ()
    return Chart(name=schedule.name, height=TOP + len(rows) * ROW + 6, grid=grid, rows=tuple(rows))


def _bar(event: Event, slot: int, width: float, y: float) -> Bar:
    x, wide = LEFT + slot * width, max(NARROWEST, width - 1)
    return Bar(event=event, x=x, y=y, width=wide, height=ROW - 2 * PAD, label=_label(event, wide), label_x=x + wide / 2)


def _label(event: Event, width: float) -> str:
    """F3 for "forward 3", where there is room; else nothing."""
    word, _, rest = event.name.partition(" ")
    text = f"{LETTERS.get(word, word)}{rest}"
    return text if len(text) * LETTER + 3 <= width else ""
