"""Who was in which communication when, as a strip of letters for each rank, to be read without colour.

    0  gbbrr·B
    1  gbbrr·X

A column is a moment between two events of any rank, so the strip is in order but not to scale. A capital stands for a
communication that nothing ends, `·` for none, and a strip is over where its rank is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from grader.model import Deadlocked, Finished, RankRecord, Run, TimedOut

LETTERS = {
    "all_reduce": "r",
    "broadcast": "b",
    "all_gather": "g",
    "reduce_scatter": "s",
    "all_to_all": "t",
    "barrier": "x",
    "reduce": "d",
    "gather": "h",
    "scatter": "c",
    "send": "p",
    "recv": "q",
}
OTHER, NONE, CUT = "o", "·", "…"
TAIL = 3
"""Columns that a wait without an end takes."""


@dataclass(frozen=True, slots=True)
class _Event:
    operation: str
    start: float
    end: float | None

    @property
    def letter(self) -> str:
        return LETTERS.get(self.operation, OTHER)


def strips(run: Run, width: int) -> list[tuple[int, str]]:
    """The strip of each rank, at most `width` columns: the last ones. Empty if no rank told what it communicated."""
    events = {record.rank: _events(record) for record in run.ranks}
    if not any(events.values()):
        return []
    moments = _moments(run, events)
    columns = list(pairwise(moments))
    rows = {record.rank: _row(record, events[record.rank], columns) for record in run.ranks}
    longest = max(map(len, rows.values()))
    cut = max(0, longest - width)
    return [(rank, (CUT + row[cut + 1 :] if cut else row).rstrip()) for rank, row in rows.items()]


def legend(run: Run) -> str:
    """What the letters of a run's strips stand for."""
    names = {event.operation for record in run.ranks for event in _events(record)}
    known = sorted((LETTERS[name], name) for name in names if name in LETTERS)
    others = sorted(name for name in names if name not in LETTERS)
    told = [f"{letter} {name}" for letter, name in known] + [f"{OTHER} {name}" for name in others]
    return ", ".join([*told, "a capital waits without end"])


def _events(record: RankRecord) -> Sequence[_Event]:
    """What a rank communicated, with what it waits in at the end."""
    ending = record.ending
    told = record.trace.communications if record.trace else ()
    known = [_Event(event.operation, event.start, event.end) for event in told]
    wait = ending.wait if isinstance(ending, (Deadlocked, TimedOut)) else None
    if record.trace and wait and not any(event.end is None for event in known):
        last = max((event.start if event.end is None else event.end for event in known), default=0.0)
        known.append(_Event(wait.operation.partition(" ")[0], min(last, ending.seconds), None))
    return known


def _moments(run: Run, events: dict[int, Sequence[_Event]]) -> list[float]:
    """Every moment at which something began or ended, in order."""
    found = {event.start for own in events.values() for event in own}
    found |= {event.end for own in events.values() for event in own if event.end is not None}
    found |= {record.ending.seconds for record in run.ranks if isinstance(record.ending, Finished)}
    return sorted({0.0, *(moment for moment in found if moment > 0)})


def _row(record: RankRecord, events: Sequence[_Event], columns: Sequence[tuple[float, float]]) -> str:
    row = "".join(_columns(record, events, columns))
    waiting = next((event for event in reversed(events) if event.end is None), None)
    return row + (waiting.letter.upper() * TAIL if waiting else "")


def _columns(record: RankRecord, events: Sequence[_Event], columns: Sequence[tuple[float, float]]) -> Iterator[str]:
    """A character for each stretch of time; nothing more once the rank has left."""
    left = record.ending.seconds if isinstance(record.ending, Finished) else float("inf")
    for start, end in columns:
        if start >= left:
            return
        now = [event for event in events if event.start < end and (event.end is None or event.end > start)]
        yield (now[-1].letter.upper() if now[-1].end is None else now[-1].letter) if now else NONE
