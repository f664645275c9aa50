"""An interview without a process: questions, a clock that stands still, somebody who types what a script says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from grader.model import Report
from grader.practice.store import Store
from grader.quiz.interview import state
from grader.quiz.interview.session import InterviewSession
from grader.quiz.interview.state import Interview
from grader.quiz.numbers import NumberQuestion
from grader.quiz.page import Page
from grader.quiz.questions import Bank, CardQuestion, ChoiceQuestion, Option
from grader.render import terminal
from tests.attempts import COURSE, NOW
from tests.people import asker
from tests.reports import partial

STATEMENT = """\
# 01 · Join

## What interviewers ask

**Who meets where?** At `MASTER_ADDR`,
on a port.

Prose in between.

**And then?** They part.

## Further reading

**Not this.** No.
"""
CHOICE = ChoiceQuestion(
    id="overlap/why", topic="overlap", text="Why does it overlap?", explanation="Buckets are ready early.",
    difficulty=1, line=1, exercise="01",
    options=(Option(text="Buckets", right=True), Option(text="Magic", right=False, why="No.")),
)  # fmt: skip
NUMBER = NumberQuestion(
    id="amdahl/ten", topic="amdahl", text="Speed-up?", explanation="1/(1-p).", difficulty=2, line=2, value=96.0,
    unit="MB", tolerance=0.05, calculation="48 * 2",
)  # fmt: skip
CARD = CardQuestion(
    id="zero/what", topic="zero", text="What does stage 1 shard?", explanation="Adam's moments.", difficulty=1, line=3,
    answer="The optimizer's state.",
)  # fmt: skip
QUESTIONS = {question.id: question for question in (CHOICE, NUMBER, CARD)}
BANKS = tuple(
    Bank(topic=question.topic, title=question.topic, order=place, questions=(question,), path=Path())
    for place, question in enumerate(QUESTIONS.values())
)


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    time: datetime = NOW

    def __call__(self) -> datetime:
        return self.time

    def move(self, **span: float) -> None:
        self.time += timedelta(**span)


@dataclass
class Person:
    """A person who types what a script says. A callable in the script is called in place of a line."""

    store: Store
    clock: Clock = field(default_factory=Clock)
    said: list[str] = field(default_factory=list)
    report: Callable[[], Report] = partial

    def session(self, interview: Interview, *script: Any) -> InterviewSession:
        return InterviewSession(
            interview=interview, exercise=COURSE[0], file=Path("interviews/a/join.py"), questions=QUESTIONS,
            store=self.store, now=self.clock, ask=asker(script), say=self.said.append, grade=lambda only: self.report(),
            show=terminal.render, statement=STATEMENT, page=Page(plain=True),
        )  # fmt: skip

    @property
    def text(self) -> str:
        return "\n".join(self.said)


def begun(minutes: float = 55, questions=(CHOICE, NUMBER, CARD)) -> Interview:
    return state.begin(COURSE[0], questions, minutes, seed=3, now=NOW)


def letter(right: bool) -> str:
    place = begun().shown(CHOICE)[0].right
    return "ab"[place if right else 1 - place]


def kept(person: Person) -> Interview:
    return state.read(person.store.interviews()[-1][1])
