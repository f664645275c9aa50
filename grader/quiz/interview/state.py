"""What an interview is and what has happened in it: frozen, and plain enough to be kept as JSON after every step."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from grader.model import Exercise, Report
from grader.quiz import deck
from grader.quiz.questions import Bank, Question
from grader.wording.text import points

LATELY = timedelta(days=14)
MINUTES_A_QUESTION = 9
"""One question for so many minutes of the interview, and at least `FEWEST`."""
FEWEST, MOST = 3, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """A grade that was asked for, `at` seconds of the interview."""

    at: float
    status: str
    score: float
    max_score: float
    checks: Mapping[str, str]

    @property
    def worth(self) -> str:
        """Its points, as a page shows them."""
        return "no mark" if self.status == "error" else f"{points(self.score)} / {points(self.max_score)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was said to a question, and how many seconds it took. `right` is None where the person rates it alone."""

    question: str
    typed: str
    right: bool | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Interview:
    """`spans` are the stretches of time in which it ran, the last one open while it does; `seen` is when it was last
    known to run, so that a crash costs no time. `spent` are the seconds before a pause on a question that is open."""

    name: str
    exercise: str
    minutes: float
    questions: tuple[str, ...]
    seed: int
    spans: tuple[tuple[datetime, datetime | None], ...]
    seen: datetime
    grades: tuple[Grade, ...] = ()
    answers: tuple[Answer, ...] = ()
    status: str = "running"
    spent: Mapping[str, float] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def open(self) -> bool:
        """Whether it can be gone on with."""
        return self.status in ("running", "paused")

    def elapsed(self, now: datetime) -> float:
        """Seconds that it has run."""
        return sum(((end or now) - start).total_seconds() for start, end in self.spans)

    def left_in_words(self, now: datetime) -> str:
        """`32:10 of 55:00 left`."""
        return f"{clock(self.left(now))} of {clock(60 * self.minutes)} left"

    def left(self, now: datetime) -> float:
        """Seconds that are left, 0 where the time is up."""
        return max(0.0, 60 * self.minutes - self.elapsed(now))

    def next_question(self) -> str | None:
        answered = {answer.question for answer in self.answers}
        return next((question for question in self.questions if question not in answered), None)

    def shown(self, question: Question) -> Question:
        """A question with its options in the order in which this interview shows them."""
        return question.shuffled(f"{self.seed} {question.id}")

    # -- steps --------------------------------------------------------------------------------------------------------

    def seen_at(self, now: datetime) -> Interview:
        return replace(self, seen=now)

    def graded(self, report: Report, now: datetime) -> Interview:
        checks = {verdict.check.id: verdict.outcome.value for verdict in report.verdicts}
        grade = Grade(
            at=self.elapsed(now), status=report.status, score=report.score, max_score=report.max_score, checks=checks
        )
        return replace(self, grades=(*self.grades, grade), seen=now)

    def interrupted(self, question: str, seconds: float) -> Interview:
        """Left in the middle of a question, after so many seconds of it."""
        return replace(self, spent={**self.spent, question: self.spent.get(question, 0.0) + seconds})

    def answered(self, answer: Answer, now: datetime) -> Interview:
        return replace(self, answers=(*self.answers, answer), seen=now)

    def paused(self, now: datetime) -> Interview:
        return replace(self, spans=self._closed(now), status="paused", seen=now)

    def resumed(self, now: datetime) -> Interview:
        """Going on: after a pause, or after a crash, which counts until it was last seen."""
        return replace(self, spans=(*self._closed(self.seen), (now, None)), status="running", seen=now)

    def ended(self, status: str, now: datetime) -> Interview:
        return replace(self, spans=self._closed(now), status=status, seen=now)

    def _closed(self, at: datetime) -> tuple[tuple[datetime, datetime | None], ...]:
        return tuple((start, end or max(start, at)) for start, end in self.spans)


def begin(exercise: Exercise, questions: Sequence[Question], minutes: float, seed: int, now: datetime) -> Interview:
    return Interview(
        name=f"{now:%Y%m%d-%H%M%S}",
        exercise=exercise.name,
        minutes=minutes,
        questions=tuple(question.id for question in questions),
        seed=seed,
        spans=((now, None),),
        seen=now,
    )


# -- drawing ----------------------------------------------------------------------------------------------------------


def draw_exercise(
    exercises: Sequence[Exercise], passed: Mapping[str, datetime], minutes: float, now: datetime, seed: int
) -> Exercise:
    """One that fits the time and was not `passed` lately, at random. Where all that fit were, the shortest of the
    others; where all were, the one whose pass is oldest."""
    fitting = [each for each in exercises if each.time_box <= minutes] or [min(exercises, key=lambda e: e.time_box)]
    open_ones = [each for each in exercises if each.name not in passed or now - passed[each.name] > LATELY]
    stale = [each for each in fitting if each in open_ones]
    if not stale and open_ones:
        return min(open_ones, key=lambda each: each.time_box)
    if not stale:
        return min(fitting, key=lambda each: passed[each.name])
    ready = [each for each in stale if set(each.prerequisites) <= passed.keys()]
    return random.Random(seed).choice(ready or stale)


def draw_questions(
    banks: Sequence[Bank],
    known: Collection[str],
    exercise: Exercise,
    minutes: float,
    seed: int,
    count: int | None = None,
) -> tuple[Question, ...]:
    """Questions that were not answered right lately (`known` were): those about the exercise first, then one topic
    after the other, and no chains. `count` overrides how many fit the time."""
    number = min(MOST, max(FEWEST, int(minutes // MINUTES_A_QUESTION))) if count is None else count
    chance = random.Random(seed)
    pools = []
    for bank in banks:
        single = [item for item in bank.questions if isinstance(item, Question)]
        pool = [question for question in single if question.id not in known] or single
        chance.shuffle(pool)
        pools.append(pool)
    chance.shuffle(pools)
    dealt = [
        question for layer in range(max(map(len, pools), default=0)) for pool in pools for question in pool[layer:][:1]
    ]
    about = [question for question in dealt if question.exercise == exercise.number]
    first = about[: max(1, number // 3)]
    return tuple([*first, *(question for question in dealt if question not in first)][:number])


def passed_in(interviews: Iterable[Interview]) -> dict[str, datetime]:
    """When each exercise was last passed in an interview."""
    found: dict[str, datetime] = {}
    for interview in interviews:
        if any(grade.status == "passed" for grade in interview.grades):
            found[interview.exercise] = max(interview.seen, found.get(interview.exercise, interview.seen))
    return found


def known_lately(store: deck.Store, now: datetime) -> set[str]:
    """The questions whose last answer was right and is not long ago."""
    last: dict[str, bool] = {}
    for review in deck.reviews(store):
        last[review["question"]] = review["right"] and now - review["review_datetime"] <= LATELY
    return {question for question, right in last.items() if right}


# -- keeping ----------------------------------------------------------------------------------------------------------


def as_json(interview: Interview) -> str:
    """The interview as a text to keep."""

    def default(value: Any) -> str:
        return str(value.isoformat())

    return json.dumps(asdict(interview), default=default)


def read(text: str) -> Interview:
    """The interview that `as_json` made. Raises LookupError, TypeError or ValueError for anything else."""
    raw = json.loads(text)
    spans = tuple((_moment(start), _moment(end) if end else None) for start, end in raw["spans"])
    return Interview(
        **{
            **raw,
            "questions": tuple(raw["questions"]),
            "spans": spans,
            "seen": _moment(raw["seen"]),
            "grades": tuple(Grade(**grade) for grade in raw["grades"]),
            "answers": tuple(Answer(**answer) for answer in raw["answers"]),
        }
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def clock(seconds: float) -> str:
    """Minutes and seconds: 54:09."""
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
