"""A class report as JSON, which docs/class-report.schema.json describes, and its checks as CSV. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from grader.batch.report.model import CheckReport, ClassReport, ExerciseReport
from grader.course.roster import write

SCHEMA = "ranklings/class/1"
COLUMNS = (
    "exercise",
    "check",
    "title",
    "points",
    "judged",
    "passed",
    "failed",
    "blocked",
    "skipped",
    "broken",
    "rate",
    "low",
    "high",
    "blocked_rate",
    "discrimination",
    *(f"fifth_{number}" for number in range(1, 6)),
    "cost",
    "suspect",
)


def as_json(report: ClassReport) -> str:
    """Everything that the page shows, ending with a newline."""
    return json.dumps({"schema": SCHEMA, **_rounded(asdict(report))}, ensure_ascii=False, indent=1) + "\n"


def _rounded(value: Any) -> Any:
    """Numbers to six decimals; what JSON cannot say (no number, infinity) as null."""
    match value:
        case float():
            return round(value, 6) if math.isfinite(value) else None
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case list() | tuple():
            return [_rounded(item) for item in value]
    return value


def as_csv(report: ClassReport) -> str:
    """A row for each check."""
    rows = [[*COLUMNS]]
    rows += [_row(exercise, check) for exercise in report.exercises for check in exercise.checks]
    return write(rows)


def _row(exercise: ExerciseReport, check: CheckReport) -> list[str]:
    reasons = {suspect.check: "; ".join(suspect.reasons) for suspect in exercise.suspects}
    numbers = [check.judged, check.passed, check.failed, check.blocked, check.skipped, check.broken]
    shares = [check.rate, *check.interval, check.blocked_rate, check.discrimination, *check.quintiles, check.cost]
    return [
        exercise.name,
        check.id,
        check.title,
        _cell(check.points),
        *map(str, numbers),
        *map(_cell, shares),
        reasons.get(check.id, ""),
    ]


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")
