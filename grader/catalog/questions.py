"""The questions of quizzes/ as frozen values. Standard library only; `banks` makes them of YAML."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One answer to choose. `why` says what is wrong about it, and is empty for the right one."""

    text: str
    right: bool
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What all kinds have. `id` is `topic/word` and never changes, for a learner's progress is kept under it.

    `exercise` is the number of the exercise that it belongs to, as "08"; `difficulty` goes from 1 to 3; `line` is where
    it begins in its bank's file."""

    id: str
    topic: str
    text: str
    explanation: str
    difficulty: int
    line: int
    exercise: str | None = None
    source: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceQuestion(Question):
    """Several options, one of them right."""

    options: tuple[Option, ...]

    @property
    def right(self) -> int:
        """The index of the right option."""
        return next(index for index, option in enumerate(self.options) if option.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberQuestion(Question):
    """A number with a unit. An answer is right within `tolerance`, relative to `value`. `calculation` is an expression
    over the formulas of exercise 19. `unit_shown` says whether the learner is told the unit."""

    value: float
    unit: str
    tolerance: float
    calculation: str
    unit_shown: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CardQuestion(Question):
    """An open question with a model answer, which the learner rates for himself."""

    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """The questions on one topic, in the order of their file. `order` is the bank's place among the topics."""

    topic: str
    title: str
    order: int
    questions: tuple[Question, ...]
    path: Path
