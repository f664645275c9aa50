"""assignment.yaml becomes a frozen Assignment, or a UsageError that says which line to mend: whoever wrote it gives the
command that reads it."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from grader.catalog.document import Document, read, validated
from grader.catalog.exercise import overlay
from grader.catalog.manifest import Strict, Text
from grader.catalog.names import resolve
from grader.model import Exercise
from grader.model.assignment import Assignment, LateRule, Part
from grader.model.errors import AuthorError, UsageError


def _moment(value: Any) -> Any:
    """A time with its zone, quoted in the file or not."""
    if isinstance(value, date) and not isinstance(value, datetime):
        raise ValueError("must name a time of day and a zone, as 2026-10-12T23:59:00+02:00")
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError("must name its time zone, as 2026-10-12T23:59:00+02:00")
    return value


Moment = Annotated[datetime, BeforeValidator(_moment)]


class LateEntry(Strict):
    """The rule for what is handed in late."""

    grace_minutes: NonNegativeFloat = 0.0
    percent_per_day: Annotated[float, Field(ge=0, le=100)] = 0.0
    days: NonNegativeInt | None = None


class PartEntry(Strict):
    """One exercise of an assignment."""

    weight: PositiveFloat
    due: Moment | None = None
    late: LateEntry | None = None


class AssignmentFile(Strict):
    """assignment.yaml."""

    title: Text
    exercises: Annotated[dict[str, PartEntry], Field(min_length=1)]
    due: Moment | None = None
    late: LateEntry = LateEntry()
    checks: Text | None = None


def load_assignment(path: Path, root: Path) -> Assignment:
    """The assignment in a file. An exercise's own due date and rule go before those of the whole file. Raises
    UsageError with the line."""
    try:
        return _loaded(path, root)
    except AuthorError as error:
        raise UsageError(str(error)) from None


def _loaded(path: Path, root: Path) -> Assignment:
    document = read(path)
    entry = validated(document, AssignmentFile)
    parts = tuple(_part(document, key, entry, root) for key in entry.exercises)
    names = [part.exercise for part in parts]
    for key, name in zip(entry.exercises, names, strict=True):
        if names.count(name) > 1:
            raise document.error(("exercises", key), f"{name} stands twice", "Keep one of them.")
    checks = path.parent / entry.checks if entry.checks else None
    if checks and not checks.is_dir():
        raise document.error(("checks",), f"there is no folder {checks}", "Name it relative to this file.")
    return Assignment(title=entry.title, parts=parts, checks=checks)


def _part(document: Document, key: str, whole: AssignmentFile, root: Path) -> Part:
    entry = whole.exercises[key]
    try:
        name = resolve(key, root)
    except UsageError as error:
        raise document.error(("exercises", key), f"'{key}' is no exercise", str(error)) from None
    late = whole.late if entry.late is None else entry.late
    rule = LateRule(grace=timedelta(minutes=late.grace_minutes), per_day=late.percent_per_day / 100, days=late.days)
    return Part(exercise=name, weight=entry.weight, due=entry.due or whole.due, rule=rule)


def overlaid(exercise: Exercise, folder: Path) -> Exercise:
    """The exercise with a course's own cases and checks, for a command of whoever wrote them. Raises UsageError with
    the line."""
    try:
        return overlay(exercise, folder)
    except AuthorError as error:
        raise UsageError(str(error)) from None


def moment(text: str) -> datetime:
    """A time with its zone, as Gradescope and git write it. Raises ValueError."""
    found: datetime = _moment(text)
    return found


def dump_assignment(assignment: Assignment) -> str:
    """The text of an assignment.yaml that says the same."""
    exercises = {part.exercise: _plain(part) for part in assignment.parts}
    content: dict[str, Any] = {"title": assignment.title, "exercises": exercises}
    if assignment.checks:
        content["checks"] = assignment.checks.as_posix()
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _plain(part: Part) -> dict[str, Any]:
    rule = part.rule
    late = {"grace_minutes": rule.grace.total_seconds() / 60, "percent_per_day": 100 * rule.per_day}
    if rule.days is not None:
        late["days"] = rule.days
    return {"weight": part.weight, **({"due": part.due.isoformat()} if part.due else {}), "late": late}
