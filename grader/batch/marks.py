"""The mark of every hand-in that counts, as a stream in the order of the ledger's key."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from grader.batch.ledger import Ledger, content_of
from grader.batch.row import Standing

PAGE = """
SELECT e.exercise, e.who, e.attempt, e.weight, e.kept, e.late, u.unit, u.files, u.standing, u.mark,
    u.max_score, u.checks
FROM entries e JOIN units u ON u.unit = e.unit
WHERE e.plan = ? AND (e.exercise, e.who, e.attempt) > (?, ?, ?) ORDER BY e.exercise, e.who, e.attempt LIMIT 500
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What one exercise of one person is given: `points` of the assignment, lateness taken off; None where there is no
    verdict. `files` and `unit` say what was graded, `checks` what each check came to."""

    exercise: str
    who: str
    points: float | None
    weight: float
    kept: float
    late: str
    unit: str
    files: str
    checks: Mapping[str, str]

    @property
    def key(self) -> tuple[str, str]:
        return self.exercise, self.who


def marks(ledger: Ledger, plan: sqlite3.Row | None) -> Iterator[Mark]:
    """The marks under a plan, by exercise and person."""
    best = content_of(plan).get("choice") == "best"
    for _, own in groupby(_rows(ledger, plan["plan"] if plan else 0), key=lambda row: (row["exercise"], row["who"])):
        several = [_mark(row) for row in own]
        yield (
            max(reversed(several), key=lambda mark: -1.0 if mark.points is None else mark.points)
            if best
            else several[-1]
        )


def _rows(ledger: Ledger, plan: int) -> Iterator[sqlite3.Row]:
    after: tuple[str, str, int] = ("", "", 0)
    while page := ledger.all(PAGE, [plan, *after]):
        yield from page
        after = page[-1]["exercise"], page[-1]["who"], page[-1]["attempt"]


def _mark(row: sqlite3.Row) -> Mark:
    final = row["standing"] == Standing.FINAL.value and row["mark"] is not None and row["max_score"]
    return Mark(
        exercise=row["exercise"],
        who=row["who"],
        points=row["weight"] * row["mark"] / row["max_score"] * row["kept"] if final else None,
        weight=row["weight"],
        kept=row["kept"],
        late=row["late"],
        unit=row["unit"],
        files=row["files"],
        checks=json.loads(row["checks"]),
    )


def publish(ledger: Ledger) -> None:
    """Note that the marks as they are now have been given out: the next `diff` is against these."""
    plan = ledger.plan()
    rows = [
        (mark.exercise, mark.who, mark.unit, mark.points, mark.kept, mark.weight, plan["plan"] if plan else 0,
         json.dumps({"files": mark.files, "late": mark.late, "checks": dict(mark.checks)}))
        for mark in marks(ledger, plan)
    ]  # fmt: skip
    with ledger.changing() as connection:
        connection.execute("DELETE FROM published")
        connection.executemany("INSERT INTO published VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def published(ledger: Ledger) -> Iterator[Mark]:
    """The marks that were given out last, in the same order."""
    after = ("", "")
    query = "SELECT * FROM published WHERE (exercise, who) > (?, ?) ORDER BY exercise, who LIMIT 500"
    while page := ledger.all(query, after):
        for row in page:
            told = json.loads(row["checks"])
            yield Mark(
                exercise=row["exercise"],
                who=row["who"],
                points=row["mark"],
                weight=row["weight"],
                kept=row["kept"],
                late=told["late"],
                unit=row["unit"],
                files=told["files"],
                checks=told["checks"],
            )
        after = page[-1]["exercise"], page[-1]["who"]
