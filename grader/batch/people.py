"""The table of --people: who handed in what and when, where a platform does not say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from grader.batch.hand_ins import HandIn
from grader.catalog.assignment import moment
from grader.course import roster
from grader.model.errors import UsageError
from grader.model.words import count

COLUMNS = ("hand_in", "student", "submitted_at", "due")


def as_told(found: Sequence[HandIn], people: Path) -> Iterator[HandIn]:
    """The hand-ins with what the table says of them. Raises UsageError where it says nothing clear."""
    rows = _table(people)
    unknown = set(rows) - {one.name for one in found}
    if unknown:
        raise UsageError(f"{people} names {sorted(unknown)[0]!r}, and there is no hand-in of that name.")
    for one in found:
        row = rows.get(one.name)
        if row is None:
            yield one
            continue
        yield replace(
            one,
            who=row.get("student") or one.who,
            submitted_at=_time(row, "submitted_at", people) or one.submitted_at,
            due=_time(row, "due", people),
        )


def _table(people: Path) -> dict[str, dict[str, str]]:
    try:
        known = roster.read(people.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"{people} cannot be read: {reason}.") from None
    names = [name.lower() for name in known.header]
    if "hand_in" not in names or not set(names) <= set(COLUMNS):
        raise UsageError(f"{people} must have the column hand_in and may have {', '.join(COLUMNS[1:])}, and no others.")
    rows = [{name: cell.strip() for name, cell in zip(names, row, strict=True)} for row in known.rows if any(row)]
    named = {row["hand_in"]: row for row in rows}
    if len(named) < len(rows):
        raise UsageError(f"{people} has {count(len(rows) - len(named), 'hand-in')} twice; keep one row of each.")
    return named


def _time(row: Mapping[str, str], column: str, people: Path) -> datetime | None:
    try:
        return moment(row[column]) if row.get(column) else None
    except ValueError:
        raise UsageError(
            f"{people}: {row[column]!r} is no time with a time zone; write it like 2026-10-12T23:59:00+02:00."
        ) from None
