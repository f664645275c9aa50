"""The questions of quizzes/ as frozen values, each of which judges what is typed. `banks` makes them of YAML."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from grader.quiz import answers
from grader.quiz.answers import LETTERS, Correctness, Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(ABC):
    """What a bank holds: one question, or a chain of them. `id` is `topic/word` and never changes, for a learner's
    progress is kept under it.

    `exercise` is the number of the exercise that it belongs to, as "08"; `difficulty` goes from 1 to 3; `line` is where
    it begins in its bank's file."""

    id: str
    topic: str
    text: str
    difficulty: int
    line: int
    exercise: str | None = None
    source: str | None = None

    guessable: ClassVar[bool] = False
    """Whether a right answer may be luck."""
    typing_seconds: ClassVar[float] = 4
    """What it takes to type an answer that one knows."""

    @abstractmethod
    def asked(self, seed: str) -> tuple[Question, ...]:
        """The questions to put, one after the other: with options in an order and numbers that the seed decides."""

    def setting(self, seed: str) -> str:
        """What a chain is about, which its first question tells."""
        return ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The options to choose from, in the order in which they are shown."""
        return ()

    def placed(self, exercises: Collection[str]) -> Self:
        """The item as a course has it that consists of these exercises: it names no other."""
        return replace(self, exercise=self.exercise if self.exercise in exercises else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Item):
    """A question that judges what is typed. What all kinds have."""

    explanation: str
    hint: str | None = None

    open: ClassVar[bool] = False
    """Whether only the person who answers can say how good an answer is."""

    @abstractmethod
    def judge(self, typed: str) -> Judgement:
        """Whether what was typed is right."""

    @property
    @abstractmethod
    def asks_for(self) -> str:
        """What is to be typed, for a prompt."""

    @property
    @abstractmethod
    def clue(self) -> str:
        """A hint in a sentence: the question's own, or else what all questions of its kind can say."""

    @property
    @abstractmethod
    def solution(self) -> tuple[str, ...]:
        """What is right, in sentences."""

    @property
    @abstractmethod
    def correct(self) -> str:
        """What is right, alone."""

    def asked(self, seed: str) -> tuple[Question, ...]:
        return (self.shuffled(seed),)

    def shuffled(self, seed: str) -> Self:
        """The same question with its options in another order."""
        return self

    def said(self, typed: str) -> str:
        """What was meant by what was typed."""
        return typed

    def placed(self, exercises: Collection[str]) -> Self:
        exercise = self.exercise if self.exercise in exercises else None
        return replace(self, exercise=exercise, hint=self.hint or self._pointer(exercises))

    def _pointer(self, exercises: Collection[str]) -> str | None:
        """A hint that points to one of the exercises."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One answer to choose. `why` says what is wrong about it, and is empty for the right one."""

    text: str
    right: bool
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceQuestion(Question):
    """Several options, one of them right."""

    options: tuple[Option, ...]

    guessable = True

    @property
    def right(self) -> int:
        """The index of the right option."""
        return next(index for index, option in enumerate(self.options) if option.right)

    def judge(self, typed: str) -> Judgement:
        place = answers.letter(typed, len(self.options))
        if place is None:
            last = LETTERS[len(self.options) - 1]
            return Judgement(correctness=Correctness.UNREADABLE, message=f"Type a letter from a to {last}.")
        option = self.options[place]
        if option.right:
            return Judgement(correctness=Correctness.RIGHT)
        return Judgement(correctness=Correctness.WRONG, message=f"You chose {LETTERS[place]}: {option.why}.")

    @property
    def asks_for(self) -> str:
        return f"a-{LETTERS[len(self.options) - 1]}"

    @property
    def clue(self) -> str:
        place = next(place for place, option in enumerate(self.options) if not option.right)
        return self.hint or f"not {LETTERS[place]}); {self.options[place].why}."

    @property
    def solution(self) -> tuple[str, ...]:
        return (f"The answer is {LETTERS[self.right]}) {self.correct}",)

    @property
    def correct(self) -> str:
        return self.options[self.right].text

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(option.text for option in self.options)

    def shuffled(self, seed: str) -> Self:
        options = list(self.options)
        random.Random(seed).shuffle(options)
        return replace(self, options=tuple(options))

    def said(self, typed: str) -> str:
        place = answers.letter(typed, len(self.options))
        return typed if place is None else self.options[place].text


@dataclass(frozen=True, slots=True, kw_only=True)
class CardQuestion(Question):
    """An open question with a model answer; whoever answers it says how well they knew it."""

    answer: str

    open = True

    def judge(self, typed: str) -> Judgement:
        return Judgement(correctness=Correctness.OPEN)

    @property
    def asks_for(self) -> str:
        return "a sentence or two, typed or aloud"

    @property
    def clue(self) -> str:
        return self.hint or "say first what is sent or kept, by whom, and when."

    @property
    def solution(self) -> tuple[str, ...]:
        return (f"A good answer: {self.answer}",)

    @property
    def correct(self) -> str:
        return self.answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """The items on one topic, in the order of their file. `order` is the bank's place among the topics."""

    topic: str
    title: str
    order: int
    questions: tuple[Item, ...]
    path: Path
