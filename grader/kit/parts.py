"""Parts of what is tried, one after the other: each for itself on one rank, where nobody waits for others, and those of
a family on several ranks, where what raises in one keeps the run from the next. grader.checks.parts reads the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

Part = Callable[[Any], None]


def each(rank: Any, families: Mapping[str, Sequence[Part]]) -> None:
    """Every part, whatever becomes of those before it; what it came to is recorded as `NAME alone`."""
    for part in chain(*families.values()):
        rank.record(f"{part.__name__} alone", rank.attempt(part, rank).described())


def in_turn(rank: Any, parts: Iterable[Part]) -> None:
    """These parts. That one came to its end is recorded as `NAME ended`."""
    for part in parts:
        part(rank)
        rank.record(f"{part.__name__} ended", True)
