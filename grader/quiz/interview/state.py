"""What an interview is and what has happened in it: frozen, and plain enough to be kept as JSON after every step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from grader.model import Exercise, Report, Verdict
from grader.quiz.questions import Item, Question
from grader.wording.text import points

VERSION = 2
"""Of what is kept. 1 had no levels, hints, chains, endings and ticks, and is read as an interview without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """A grade that was asked for, `at` seconds of the interview. `level` is the last level whose checks were judged, 0
    in an interview without levels; `whole` says that these were all checks. `endings` are the kinds of runs that went
    wrong, such as "deadlocked", and how many; `seen` is what the findings of some checks hint at."""

    at: float
    status: str
    score: float
    max_score: float
    checks: Mapping[str, str]
    level: int = 0
    whole: bool = True
    endings: Mapping[str, int] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)

    @property
    def worth(self) -> str:
        """Its points, as a page shows them."""
        return "no mark" if self.status == "error" else f"{points(self.score)} / {points(self.max_score)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was said to a question, and how many seconds it took. `right` is None where the person rates it alone.
    `part` counts the questions of a chain from 0."""

    question: str
    typed: str
    right: bool | None
    seconds: float
    part: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelTime:
    """When a level was asked for and when it passed, in seconds of the interview."""

    begun: float
    passed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HintTaken:
    """A hint that was asked for: in which level, for which check ("" for the exercise as a whole), the how-manieth of
    it."""

    level: int
    check: str
    number: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Interview:
    """`spans` are the stretches of time in which it ran, the last one open while it does; `seen` is when it was last
    known to run, so that a crash costs no time. `spent` are the seconds before a pause on a question that is open.
    `levels` are those that were asked for so far, none in an interview without levels. `ticks` are, for each design
    case, the places in its rubric of what the person says to have said; `rated`, for each open question, how well they
    say to have known it, from 1 to 4. `mends` is how many programs there are to mend, `mended` the names under which
    those that were begun are kept."""

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
    levels: tuple[LevelTime, ...] = ()
    hints: tuple[HintTaken, ...] = ()
    ticks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    mends: int = 0
    mended: tuple[str, ...] = ()
    rated: Mapping[str, int] = field(default_factory=dict)

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

    def moment(self, now: datetime) -> float:
        """When in the interview it is: the last grade comes when the time is up, however long it takes."""
        return min(self.elapsed(now), 60 * self.minutes)

    def left_in_words(self, now: datetime) -> str:
        """`32:10 of 55:00 left`."""
        return f"{clock(self.left(now))} of {clock(60 * self.minutes)} left"

    def left(self, now: datetime) -> float:
        """Seconds that are left, 0 where the time is up."""
        return max(0.0, 60 * self.minutes - self.elapsed(now))

    def parts_answered(self, question: str) -> int:
        return sum(answer.question == question for answer in self.answers)

    def next_question(self, items: Mapping[str, Item]) -> Item | None:
        """The first that is not answered, or not to its end. Those that the banks lost meanwhile are passed over."""
        asked = (items[name] for name in self.questions if name in items)
        return next((item for item in asked if self.parts_answered(item.id) < len(self.shown(item))), None)

    def shown(self, item: Item) -> tuple[Question, ...]:
        """The questions of an item, with options in the order and numbers as this interview shows them."""
        return item.asked(self.seed_of(item))

    def seed_of(self, item: Item) -> str:
        return f"{self.seed} {item.id}"

    # -- steps --------------------------------------------------------------------------------------------------------

    def seen_at(self, now: datetime) -> Interview:
        return replace(self, seen=now)

    def graded(self, report: Report, now: datetime, *, whole: bool = True) -> Interview:
        grade = Grade(
            at=self.moment(now),
            status=report.status,
            score=report.score,
            max_score=report.max_score,
            checks={verdict.check.id: verdict.outcome.value for verdict in report.verdicts},
            level=len(self.levels),
            whole=whole,
            endings=dict(Counter(run.diagnosis.kind for run in report.runs if run.diagnosis)),
            seen={verdict.check.id: hint for verdict in report.verdicts if (hint := _hint_of(verdict))},
        )
        return replace(self, grades=(*self.grades, grade), seen=now)

    def interrupted(self, question: str, seconds: float) -> Interview:
        """Left in the middle of a question, after so many seconds of it."""
        return replace(self, spent={**self.spent, question: self.spent.get(question, 0.0) + seconds})

    def answered(self, answer: Answer, now: datetime) -> Interview:
        spent = {question: seconds for question, seconds in self.spent.items() if question != answer.question}
        return replace(self, answers=(*self.answers, answer), spent=spent, seen=now)

    def ticked(self, question: str, places: Sequence[int]) -> Interview:
        return replace(self, ticks={**self.ticks, question: tuple(places)})

    def rated_as(self, question: str, rating: int) -> Interview:
        return replace(self, rated={**self.rated, question: rating})

    def paused(self, now: datetime) -> Interview:
        return replace(self, spans=self._closed(now), status="paused", seen=now)

    def resumed(self, now: datetime) -> Interview:
        """Going on: after a pause, or after a crash, which counts until it was last seen."""
        return replace(self, spans=(*self._closed(self.seen), (now, None)), status="running", seen=now)

    def begun_at(self, now: datetime) -> Interview:
        """Its clock begins, or goes on, only now: what it took to get there is nobody's time."""
        return replace(self, spans=(*self.spans[:-1], (now, self.spans[-1][1])), seen=now)

    def ended(self, status: str, now: datetime) -> Interview:
        return replace(self, spans=self._closed(now), status=status, seen=now)

    def _closed(self, at: datetime) -> tuple[tuple[datetime, datetime | None], ...]:
        return tuple((start, end or max(start, at)) for start, end in self.spans)


def _hint_of(verdict: Verdict) -> str:
    return " ".join(next((finding.hint for finding in verdict.findings if finding.hint), "").split())


def begin(
    exercise: Exercise,
    questions: Sequence[Item],
    minutes: float,
    seed: int,
    now: datetime,
    *,
    levels: bool = False,
    mends: int = 0,
) -> Interview:
    """An interview that begins now, `levels` where the exercise is asked for level by level."""
    return Interview(
        name=f"{now:%Y%m%d-%H%M%S}",
        exercise=exercise.name,
        minutes=minutes,
        questions=tuple(question.id for question in questions),
        seed=seed,
        spans=((now, None),),
        seen=now,
        levels=(LevelTime(begun=0.0),) if levels and exercise.levels else (),
        mends=mends,
    )


# -- keeping ----------------------------------------------------------------------------------------------------------


def as_json(interview: Interview) -> str:
    """The interview as a text to keep."""

    def default(value: Any) -> str:
        return str(value.isoformat())

    return json.dumps({"version": VERSION, **asdict(interview)}, default=default)


def read(text: str) -> Interview:
    """The interview that `as_json` made, in this version or an earlier one. Raises LookupError, TypeError or ValueError
    for anything else."""
    raw = json.loads(text)
    if raw.pop("version", 1) > VERSION:
        raise ValueError("kept by a newer version of the grader")
    spans = tuple((_moment(start), _moment(end) if end else None) for start, end in raw["spans"])
    read_here = {
        "questions": tuple(raw["questions"]),
        "spans": spans,
        "seen": _moment(raw["seen"]),
        "grades": tuple(Grade(**grade) for grade in raw["grades"]),
        "answers": tuple(Answer(**answer) for answer in raw["answers"]),
        "levels": tuple(LevelTime(**level) for level in raw.get("levels", ())),
        "hints": tuple(HintTaken(**hint) for hint in raw.get("hints", ())),
        "mended": tuple(raw.get("mended", ())),
        "ticks": {question: tuple(places) for question, places in raw.get("ticks", {}).items()},
    }
    return Interview(**{**raw, **read_here})


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def clock(seconds: float) -> str:
    """Minutes and seconds: 54:09."""
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
