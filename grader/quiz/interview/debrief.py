"""What is to be said after an interview: how far it went and when, what was missed and how often, what to repeat."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from grader.model import Check, Exercise
from grader.quiz.chains import DesignCase
from grader.quiz.interview.state import Answer, Grade, Interview, clock
from grader.quiz.page import span
from grader.quiz.questions import Item, Question
from grader.wording.text import points, safe

ASKED = "## What interviewers ask"
FOLLOW_UPS = 4
KNOWN = {1: "not known", 2: "known with effort", 3: "known well", 4: "known at once"}
"""What the person says of an open question."""
ENDINGS = {
    "deadlocked": "a deadlock",
    "raised": "an exception",
    "exited": "a rank that left its process",
    "killed": "a rank that was killed",
    "timed_out": "a rank that was not done in time",
    "limit": "a limit that was reached",
}
"""How runs go wrong, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question with what was said and what is right. `ticks` are, for the opening of a design case, the points of
    its rubric and whether the person says to have made them; None where nobody has said so yet."""

    question: Question
    answer: Answer | None
    typed: str
    right: str
    ticks: tuple[tuple[str, bool | None], ...] = ()
    rated: int | None = None

    @property
    def word(self) -> str:
        if self.answer is None:
            return "not reached"
        if self.rated and self.answer.right is None:
            return KNOWN[self.rated]
        if self.ticks and None not in (made for _, made in self.ticks):
            return f"{sum(bool(made) for _, made in self.ticks)} of {len(self.ticks)} points made"
        if self.answer.right is False and not self.answer.typed:
            return "skipped"
        return {True: "right", False: "not right", None: "yours to judge"}[self.answer.right]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """One level: how it went, and the hints that were taken in it. `spent` is in seconds, None where it never came."""

    number: int
    says: str
    passed: bool
    spent: float | None
    hints: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        if self.spent is None:
            return "not reached"
        return f"{'passed in' if self.passed else 'not passed,'} {clock(self.spent)}{'' if self.passed else ' on it'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A check that failed: at how many grades, and how often after it had passed."""

    check: Check
    failed: int
    broke: int

    @property
    def word(self) -> str:
        times = "once" if self.failed == 1 else f"{self.failed} times"
        return f"failed {times}{', after it had passed' if self.broke else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Debrief:
    """All of it, for a text and for a page. `moments` are what came first and when; `repeats` what comes again and
    when."""

    interview: Interview
    exercise: Exercise
    missed: tuple[Check, ...]
    asked: tuple[Asked, ...]
    follow_ups: tuple[tuple[str, str], ...]
    levels: tuple[Reached, ...] = ()
    moments: tuple[tuple[str, str], ...] = ()
    turns: tuple[Turn, ...] = ()
    endings: tuple[tuple[str, int], ...] = ()
    repeats: tuple[tuple[str, str], ...] = ()
    mends: tuple[str, ...] = ()

    @property
    def last(self) -> Grade | None:
        return self.interview.grades[-1] if self.interview.grades else None

    @property
    def score(self) -> str:
        last = self.last
        told = f"{points(last.score)} of {points(last.max_score)} points" if last else "not graded"
        return last.worth if last and last.status == "error" else told

    @property
    def far(self) -> str:
        """How far it went, in an interview with levels: `3 of 6 levels passed`."""
        return f"{sum(each.passed for each in self.levels)} of {len(self.levels)} levels passed" if self.levels else ""

    @property
    def took(self) -> str:
        return clock(self.interview.elapsed(self.interview.seen))

    @property
    def knew(self) -> str:
        """`3 of 4 right`, of the questions that were answered and that need no judgement of one's own."""
        judged = [asked.answer for asked in self.asked if asked.answer and asked.answer.right is not None]
        if not judged:
            return "none to count" if any(asked.answer for asked in self.asked) else "none answered"
        return f"{sum(bool(answer.right) for answer in judged)} of {len(judged)} right"


def debrief(
    interview: Interview,
    exercise: Exercise,
    items: Mapping[str, Item],
    statement: str,
    *,
    due: Mapping[str, datetime] | None = None,
    now: datetime | None = None,
    mends: Sequence[str] = (),
) -> Debrief:
    """`due` says when a question, by its id, or the exercise, by its name, comes again; `mends` tells of each program
    that was to be mended."""
    return Debrief(
        interview=interview,
        exercise=exercise,
        missed=tuple(_missed(interview, exercise)),
        asked=tuple(asked for name in interview.questions if name in items for asked in _asked(interview, items[name])),
        follow_ups=tuple(follow_ups(statement)[:FOLLOW_UPS]),
        levels=tuple(_levels(interview, exercise)),
        moments=tuple(_moments(interview, exercise)),
        turns=tuple(_turns(interview, exercise)),
        endings=tuple(sum((Counter(grade.endings) for grade in interview.grades), Counter[str]()).most_common()),
        repeats=tuple(_repeats(interview, exercise, items, due or {}, now or interview.seen)),
        mends=tuple(mends),
    )


def _missed(interview: Interview, exercise: Exercise) -> list[Check]:
    """What failed last of what was asked for; all of that where nothing was graded."""
    last = interview.grades[-1] if interview.grades else None
    asked = {name for level in exercise.levels[: len(interview.levels)] for name in level.checks}
    if last is None:
        return [check for check in exercise.checks if not interview.levels or check.id in asked]
    return [check for check in exercise.checks if last.checks.get(check.id) in ("failed", "blocked")]


def _asked(interview: Interview, item: Item) -> list[Asked]:
    given = {answer.part: answer for answer in interview.answers if answer.question == item.id}
    found = []
    for part, question in enumerate(interview.shown(item)):
        answer = given.get(part)
        typed = question.said(safe(answer.typed)) if answer else ""
        ticks = _ticks(interview, item) if isinstance(item, DesignCase) and part == 0 else ()
        rated = interview.rated.get(item.id)
        found.append(
            Asked(question=question, answer=answer, typed=typed, right=question.correct, ticks=ticks, rated=rated)
        )
    return found


def _ticks(interview: Interview, case: DesignCase) -> tuple[tuple[str, bool | None], ...]:
    ticked = interview.ticks.get(case.id)
    lines = case.points(interview.seed_of(case))
    return tuple((line, None if ticked is None else place in ticked) for place, line in enumerate(lines))


def _levels(interview: Interview, exercise: Exercise) -> list[Reached]:
    end, titles = interview.elapsed(interview.seen), {check.id: check.title for check in exercise.checks}
    found = []
    for number, level in enumerate(exercise.levels if interview.levels else (), 1):
        time = interview.levels[number - 1] if number <= len(interview.levels) else None
        hints = [f"hint {one.number} for “{titles.get(one.check, 'the exercise')}” at {clock(one.at)}"
                 for one in interview.hints if one.level == number]  # fmt: skip
        spent = None if time is None else (end if time.passed is None else time.passed) - time.begun
        passed = time is not None and time.passed is not None
        found.append(Reached(number=number, says=level.says, passed=passed, spent=spent, hints=tuple(hints)))
    return found


def _moments(interview: Interview, exercise: Exercise) -> list[tuple[str, str]]:
    """The first run, the first check that passed, the first level, all checks: when, or that it did not come."""
    grades = interview.grades
    some = next((grade.at for grade in grades if "passed" in grade.checks.values()), None)
    whole = next((grade.at for grade in grades if grade.status == "passed" and grade.whole), None)
    found = [("First run", grades[0].at if grades else None), ("First check passed", some)]
    if interview.levels:
        found.append(("First level passed", interview.levels[0].passed))
    found.append(("Exercise passed", whole))
    return [(words, "not yet" if at is None else f"at {clock(at)}") for words, at in found]


def _turns(interview: Interview, exercise: Exercise) -> list[Turn]:
    """The checks that failed at some grade, the most stubborn first."""
    found = []
    for check in exercise.checks:
        outcomes = [grade.checks[check.id] for grade in interview.grades if check.id in grade.checks]
        failed = outcomes.count("failed")
        broke = sum(before == "passed" and after == "failed" for before, after in pairwise(outcomes))
        if failed:
            found.append(Turn(check=check, failed=failed, broke=broke))
    return sorted(found, key=lambda turn: -turn.failed)


def _repeats(
    interview: Interview, exercise: Exercise, items: Mapping[str, Item], due: Mapping[str, datetime], now: datetime
) -> list[tuple[str, str]]:
    """What comes again, the soonest first."""
    names = [name for name in (exercise.name, *interview.questions) if name in due]
    told = {exercise.name: f"exercise {exercise.number} {exercise.title}"}
    told |= {name: f"the question “{_short(interview.shown(items[name])[0].text)}”" for name in names if name in items}
    return [(told[name], span(due[name] - now)) for name in sorted(names, key=lambda name: due[name]) if name in told]


def _short(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + " …"


def follow_ups(statement: str) -> list[tuple[str, str]]:
    """Questions and answers of the statement's section for interviews."""
    _, found, rest = statement.partition(ASKED)
    section = rest.partition("\n## ")[0] if found else ""
    paragraphs = (" ".join(part.split()) for part in section.split("\n\n"))
    matches = (re.match(r"\*\*(.+?)\*\*\s*(.*)", paragraph) for paragraph in paragraphs)
    return [(match[1], match[2]) for match in matches if match]


def open_questions(interview: Interview, items: Mapping[str, Item]) -> list[tuple[Question, Answer]]:
    """The open questions that were answered and that nobody has rated yet, each with its answer."""
    given = {answer.question: answer for answer in interview.answers if answer.right is None}
    asked = (items[name] for name in interview.questions if name in items and name in given)
    return [(item, given[item.id]) for item in asked if isinstance(item, Question) and item.id not in interview.rated]


def open_cases(interview: Interview, items: Mapping[str, Item]) -> Sequence[DesignCase]:
    """The cases whose opening was answered and whose rubric nobody has ticked yet."""
    asked = (items[name] for name in interview.questions if name in items and name not in interview.ticks)
    return [item for item in asked if isinstance(item, DesignCase) and interview.parts_answered(item.id)]
