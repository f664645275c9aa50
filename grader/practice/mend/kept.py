"""What is kept of a mend, and how a row of the store holds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

COLUMNS = """
    name TEXT PRIMARY KEY, exercise TEXT NOT NULL, mutant TEXT NOT NULL, at TEXT NOT NULL, file TEXT NOT NULL,
    minutes REAL NOT NULL, fails TEXT NOT NULL, seconds REAL NOT NULL, status TEXT NOT NULL, hints INTEGER NOT NULL,
    grades TEXT NOT NULL"""
"""In the order of `Mend`'s fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend:
    """A wrong program that was drawn to be mended, in `file` (relative to the repository). `status` is open, mended,
    late (the time was up) or given up; `minutes` is the time that there was, `seconds` how much of it was taken.
    `fails` are the checks that it failed as it was drawn, `grades` those that failed in each grade since."""

    name: str
    exercise: str
    mutant: str
    at: datetime
    file: str
    minutes: float
    fails: tuple[str, ...]
    seconds: float = 0.0
    status: str = "open"
    hints: int = 0
    grades: tuple[tuple[str, ...], ...] = ()

    @property
    def open(self) -> bool:
        """Whether it can be gone on with."""
        return self.status == "open"

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, 60 * self.minutes - self.seconds)


def row_of(mend: Mend) -> list[Any]:
    return [
        *(mend.name, mend.exercise, mend.mutant, mend.at.isoformat(), mend.file, mend.minutes),
        *(json.dumps(mend.fails), mend.seconds, mend.status, mend.hints, json.dumps(mend.grades)),
    ]


def mend_of(row: Mapping[str, Any]) -> Mend:
    """The mend that `row_of` made a row of."""
    fails, grades = json.loads(row["fails"]), tuple(map(tuple, json.loads(row["grades"])))
    read = {"at": datetime.fromisoformat(row["at"]), "fails": tuple(fails), "grades": grades}
    return Mend(**{**row, **read})
