"""What attempts come to: per exercise how many, when the first passed, what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from grader.model import Exercise, Report, Verdict
from grader.model.errors import GraderError
from grader.practice.store import Attempt, Store, is_off, place


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How somebody stands with one exercise. `until_pass` counts the attempts up to the first that passed."""

    exercise: Exercise
    attempts: int = 0
    best: float = 0.0
    until_pass: int | None = None
    passed_at: datetime | None = None
    last_at: datetime | None = None
    hints: int = 0
    interviewed_at: datetime | None = None
    """When it was passed in an interview, whose file is not the person's own."""

    @property
    def state(self) -> str:
        return "passed" if self.until_pass else "begun" if self.attempts else "new"


def attempt_of(report: Report, at: datetime) -> Attempt:
    """A report as an attempt."""
    return Attempt(
        exercise=report.exercise.name,
        at=at,
        status=report.status,
        score=report.score,
        max_score=report.max_score,
        seed=report.seed,
        seconds=report.seconds,
        digest=report.submission.digest,
        checks={verdict.check.id: verdict.outcome.value for verdict in report.verdicts},
        hints={verdict.check.id: hint for verdict in report.verdicts if (hint := _hint_of(verdict))},
    )


def _hint_of(verdict: Verdict) -> str:
    """What the findings of a check hint at, such as what kind of deadlock it is."""
    return next((finding.hint for finding in verdict.findings if finding.hint), "")


def passed_names(root: Path) -> frozenset[str]:
    """The exercises that were passed before; none where no progress is kept or it cannot be read."""
    path = place(root)
    if is_off() or not path.is_file():
        return frozenset()
    try:
        return frozenset(attempt.exercise for attempt in Store(path).attempts() if attempt.status == "passed")
    except GraderError:
        return frozenset()


def standings(
    exercises: Sequence[Exercise], store: Store, interviewed: Mapping[str, datetime] | None = None
) -> tuple[Standing, ...]:
    """One for each exercise, in the course's order. `interviewed` says which were passed in an interview, and when."""
    attempts = store.attempts()
    found = (
        _standing(exercise, [each for each in attempts if each.exercise == exercise.name], store.hints(exercise.name))
        for exercise in exercises
    )
    return tuple(replace(each, interviewed_at=(interviewed or {}).get(each.exercise.name)) for each in found)


def _standing(exercise: Exercise, attempts: Sequence[Attempt], hints: int) -> Standing:
    passed = next((place for place, each in enumerate(attempts, start=1) if each.status == "passed"), None)
    return Standing(
        exercise=exercise,
        attempts=len(attempts),
        best=max((100 * each.score / each.max_score for each in attempts if each.has_mark), default=0.0),
        until_pass=passed,
        passed_at=attempts[passed - 1].at if passed else None,
        last_at=attempts[-1].at if attempts else None,
        hints=hints,
    )


def next_one(found: Sequence[Standing]) -> Standing | None:
    """What comes next: what was begun last and has not passed, else the first new one whose prerequisites have."""
    open_ones = [each for each in found if each.state == "begun"]
    if open_ones:
        return max(open_ones, key=lambda each: each.last_at or datetime.min)
    passed = {each.exercise.name for each in found if each.state == "passed"}
    fresh = [each for each in found if each.state == "new"]
    ready = [each for each in fresh if set(each.exercise.prerequisites) <= passed]
    return next(iter(ready or fresh), None)
