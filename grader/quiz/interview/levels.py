"""Levels of an interview: which checks are asked for now, when the next level comes, which hint is given. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from grader.model import Check, Exercise, Report, Verdict
from grader.quiz.interview.state import HintTaken, Interview, LevelTime

PASSED = ("passed", "skipped")
"""Outcomes with which a level can be passed: a check that needs other hardware holds nobody up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelHint:
    """A hint for a check, or for the exercise as a whole: the how-manieth of how many. `seen` is what the last grade
    itself hints at, as a deadlock does."""

    check: Check | None
    number: int
    of: int
    text: str
    seen: str = ""


def all_passed(interview: Interview, exercise: Exercise) -> bool:
    """Whether the last level has passed."""
    levels = interview.levels
    return len(levels) >= len(exercise.levels) and all(level.passed is not None for level in levels)


def wanted(interview: Interview, exercise: Exercise) -> tuple[str, ...]:
    """The checks of the levels up to now; none, for all checks, where these are all, and after the last level."""
    if not interview.levels or all_passed(interview, exercise):
        return ()
    asked = tuple(name for level in exercise.levels[: len(interview.levels)] for name in level.checks)
    return () if len(asked) == len(exercise.checks) else asked


def advanced(interview: Interview, exercise: Exercise, now: datetime) -> Interview:
    """After a grade: where all that was asked for passed, the level is over and the next one begins."""
    if not interview.levels or interview.levels[-1].passed is not None:
        return interview
    number, last = len(interview.levels), interview.grades[-1]
    asked = [name for level in exercise.levels[:number] for name in level.checks]
    if not asked or any(last.checks.get(name) not in PASSED for name in asked):
        return interview
    at = interview.moment(now)
    over = replace(interview.levels[-1], passed=at)
    coming = (LevelTime(begun=at),) if number < len(exercise.levels) else ()
    return replace(interview, levels=(*interview.levels[:-1], over, *coming))


def sentence(interview: Interview, exercise: Exercise) -> str:
    """What is asked for now, as the interviewer says it."""
    number, count = len(interview.levels), len(exercise.levels)
    if all_passed(interview, exercise) or number > count:
        asked = {name for level in exercise.levels for name in level.checks}
        more = " g grades the exercise as a whole." if len(asked) < len(exercise.checks) else ""
        return f"That was the last of {count} levels.{more}"
    return f"Level {number} of {count}. {exercise.levels[number - 1].says}"


def next_hint(interview: Interview, exercise: Exercise) -> LevelHint | None:
    """The next hint for the check that stands in the way: the first of those asked for that failed at the last grade,
    else the first of this level. None where all hints for it were taken, or there are none."""
    check = _in_the_way(interview, exercise)
    texts = check.hints if check and check.hints else exercise.hints
    about = check if check and check.hints else None
    number = 1 + sum(taken.check == (about.id if about else "") for taken in interview.hints)
    if number > len(texts):
        return None
    seen = interview.grades[-1].seen.get(check.id, "") if check and interview.grades else ""
    return LevelHint(check=about, number=number, of=len(texts), text=texts[number - 1], seen=seen)


def _in_the_way(interview: Interview, exercise: Exercise) -> Check | None:
    checks = {check.id: check for check in exercise.checks}
    levels = exercise.levels[: len(interview.levels)]
    last = interview.grades[-1].checks if interview.grades else {}
    asked = {name for level in levels for name in level.checks}
    failed = [name for name in checks if name in asked and last.get(name) == "failed"]
    fresh = [name for level in levels[-1:] for name in level.checks if last.get(name) not in PASSED]
    return next((checks[name] for name in (*failed, *fresh) if name in checks), None)


def hinted(interview: Interview, hint: LevelHint, now: datetime) -> Interview:
    """The interview with a hint noted."""
    taken = HintTaken(
        level=len(interview.levels),
        check=hint.check.id if hint.check else "",
        number=hint.number,
        at=interview.elapsed(now),
    )
    return replace(interview, hints=(*interview.hints, taken))


def unhinted(report: Report) -> Report:
    """The report as an interviewer would let it be seen: what fails, and no hint."""

    def bare(verdict: Verdict) -> Verdict:
        findings = tuple(replace(finding, hint=None) for finding in verdict.findings)
        return replace(verdict, check=replace(verdict.check, hints=()), findings=findings)

    return replace(report, verdicts=tuple(map(bare, report.verdicts)))
