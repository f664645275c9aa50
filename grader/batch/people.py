"""The table of --people: who handed in what and when, where a platform does not say it. A batch's folder keeps it, so
that whoever goes on need not name it again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import yaml

from grader import files
from grader.batch.hand_ins import HandIn
from grader.batch.ledger import Ledger, content_of
from grader.catalog.assignment import moment
from grader.course import roster
from grader.model.errors import UsageError
from grader.model.words import count

COLUMNS = ("hand_in", "student", "submitted_at", "due")
FILE = "people.csv"
"""What the kept table is called in a batch's folder."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it was read, once: it may come from a pipe."""

    path: Path
    content: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def read(path: Path) -> Table:
    """Raises UsageError where it cannot be read."""
    try:
        return Table(path, path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None


def kept(out: Path) -> Table | None:
    """The table that a batch's folder keeps; None where it was never given one."""
    return read(out / FILE) if (out / FILE).is_file() else None


def keep(people: Table, out: Path) -> None:
    """Keep the table in a batch's folder, in place of an earlier one."""
    files.write(out / FILE, people.content)


def as_told(found: Sequence[HandIn], people: Table) -> Iterator[HandIn]:
    """The hand-ins with what the table says of them. Raises UsageError where it says nothing clear."""
    rows, path = _rows(people), people.path
    unknown = set(rows) - {one.name for one in found}
    if unknown:
        raise UsageError(f"{path} names {sorted(unknown)[0]!r}, and there is no hand-in of that name.")
    for one in found:
        row = rows.get(one.name)
        if row is None:
            yield one
            continue
        yield replace(
            one,
            who=row.get("student") or one.who,
            submitted_at=_time(row, "submitted_at", path) or one.submitted_at,
            due=_time(row, "due", path),
        )


def untimed(ledger: Ledger) -> str:
    """The sentence of `without_times` for the plan in force."""
    plan = ledger.plan()
    assignment = yaml.safe_load(content_of(plan).get("assignment", "")) or {}
    due = [name for name, part in assignment.get("exercises", {}).items() if "due" in part]
    if plan is None or not due:
        return ""
    rows = ledger.all(
        "SELECT MAX(submitted_at) AS at FROM entries WHERE plan = ? "
        f"AND exercise IN ({', '.join('?' * len(due))}) GROUP BY who, attempt",
        [plan["plan"], *due],
    )
    return without_times([row["at"] for row in rows])


def without_times(times: Sequence[object]) -> str:
    """A sentence where it is not known of all hand-ins that are due when they were handed in; else empty."""
    missing = sum(time is None for time in times)
    if not missing:
        return ""
    return (
        f"No hand-in time is known for {missing} of {count(len(times), 'hand-in')}; due dates and late rules are not "
        f"applied to {'it' if missing == 1 else 'them'} (--people)."
    )


def _rows(people: Table) -> dict[str, dict[str, str]]:
    path = people.path
    try:
        known = roster.read(people.content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UsageError(f"{path} cannot be read: it is not UTF-8 text.") from None
    names = [name.lower() for name in known.header]
    if "hand_in" not in names or not set(names) <= set(COLUMNS):
        raise UsageError(f"{path} must have the column hand_in and may have {', '.join(COLUMNS[1:])}, and no others.")
    rows = [{name: cell.strip() for name, cell in zip(names, row, strict=True)} for row in known.rows if any(row)]
    named = {row["hand_in"]: row for row in rows}
    if len(named) < len(rows):
        raise UsageError(f"{path} has {count(len(rows) - len(named), 'hand-in')} twice; keep one row of each.")
    return named


def _time(row: Mapping[str, str], column: str, path: Path) -> datetime | None:
    try:
        return moment(row[column]) if row.get(column) else None
    except ValueError:
        raise UsageError(
            f"{path}: {row[column]!r} is no time with a time zone; write it like 2026-10-12T23:59:00+02:00."
        ) from None
