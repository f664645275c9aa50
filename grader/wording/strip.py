"""Who was in which communication when, as a strip of letters for each rank, to be read without colour.

    0  gbbrr·B
    1  gbbrr·X

A column is a moment between two events of any rank, so the strip is in order but not to scale. A capital stands for a
communication that nothing ends, `·` for none, and a strip is over where its rank is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from grader.model import Finished, Run
from grader.timeline import Band, Event, timeline

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


def strips(run: Run, width: int) -> list[tuple[int, str]]:
    """The strip of each rank, at most `width` columns: the last ones. Empty if no rank told what it communicated."""
    bands = timeline(run)
    if not any(map(_told, bands)):
        return []
    columns = list(pairwise(_moments(bands)))
    rows = [(band.record.rank, _row(band, columns)) for band in bands]
    cut = max(0, max(len(row) for _, row in rows) - width)
    return [(rank, (CUT + row[cut + 1 :] if cut else row).rstrip()) for rank, row in rows]


def legend(run: Run) -> str:
    """What the letters of a run's strips stand for."""
    names = {event.operation for band in timeline(run) for event in _told(band)}
    known = sorted((LETTERS[name], name) for name in names if name in LETTERS)
    others = sorted(name for name in names if name not in LETTERS)
    told = [f"{letter} {name}" for letter, name in known] + [f"{OTHER} {name}" for name in others]
    return ", ".join([*told, "a capital waits without end"])


def _told(band: Band) -> Sequence[Event]:
    """What a rank communicated, with what it waits in at the end; nothing where it could not tell."""
    return band.communications if band.record.trace else ()


def _letter(event: Event) -> str:
    letter = LETTERS.get(event.operation, OTHER)
    return letter.upper() if event.open else letter


def _moments(bands: Sequence[Band]) -> list[float]:
    """Every moment at which something began or ended, in order."""
    events = [event for band in bands for event in _told(band)]
    found = {event.start for event in events} | {event.end for event in events if not event.open}
    found |= {band.ended for band in bands if isinstance(band.record.ending, Finished)}
    return sorted({0.0, *found})


def _row(band: Band, columns: Sequence[tuple[float, float]]) -> str:
    waiting = next((event for event in reversed(_told(band)) if event.open), None)
    return "".join(_columns(band, columns)) + (_letter(waiting) * TAIL if waiting else "")


def _columns(band: Band, columns: Sequence[tuple[float, float]]) -> Iterator[str]:
    """A character for each stretch of time; nothing more once the rank has left."""
    left = band.ended if isinstance(band.record.ending, Finished) else float("inf")
    for start, end in columns:
        if start >= left:
            return
        now = [event for event in _told(band) if event.start < end and (event.open or event.end > start)]
        yield _letter(now[-1]) if now else NONE
