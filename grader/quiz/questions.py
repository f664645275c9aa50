"""The questions of quizzes/ as frozen values, each of which judges what is typed. `banks` makes them of YAML."""

from __future__ import annotations

import ast
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from grader.quiz import answers, units
from grader.quiz.answers import LETTERS, Correctness, Judgement, Typed
from grader.quiz.units import ONE, Unit

COST_MODEL = "19"
"""The exercise that asks for the formulas which calculations are written in."""
ROUNDING = ("ceil", "floor", "max", "min")
"""What a calculation may call beside these formulas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(ABC):
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

    open: ClassVar[bool] = False
    """Whether only the person who answers can say how good an answer is."""
    guessable: ClassVar[bool] = False
    """Whether a right answer may be luck."""
    typing_seconds: ClassVar[float] = 4
    """What it takes to type an answer that one knows."""

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

    @property
    def choices(self) -> tuple[str, ...]:
        """The options to choose from, in the order in which they are shown."""
        return ()

    def shuffled(self, seed: str) -> Self:
        """The same question with its options in another order."""
        return self

    def said(self, typed: str) -> str:
        """What was meant by what was typed."""
        return typed

    def placed(self, exercises: Collection[str]) -> Self:
        """The question as a course has it that consists of these exercises: it names no other."""
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
        return self.hint or f"it is not {LETTERS[place]}: {self.options[place].why}."

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
class NumberQuestion(Question):
    """A number with a unit. An answer is right within `tolerance`, relative to `value`. `calculation` is an expression
    whose value that is; authoring/quiz_lint holds it to that. `unit_shown` says whether the unit is told."""

    value: float
    unit: str
    tolerance: float
    calculation: str
    unit_shown: bool = True

    typing_seconds = 12

    def judge(self, typed: str) -> Judgement:
        read = answers.parse(typed)
        if isinstance(read, str):
            return Judgement(correctness=Correctness.UNREADABLE, message=read)
        if read.unit is None:
            return self._without_unit(read)
        return self._with_unit(read.number, read.unit)

    def _with_unit(self, typed: float, unit: Unit) -> Judgement:
        if not self._is_of_kind(unit):
            message = f"{unit.name} is {unit.kind}; the answer is {self._unit.kind}, as in {self.unit}."
            return Judgement(correctness=Correctness.WRONG_UNIT, message=message)
        if self._is_close(typed * unit.scale):
            return Judgement(correctness=Correctness.RIGHT)
        return Judgement(correctness=Correctness.WRONG, message=self._slip_of_scale(typed, unit))

    def _without_unit(self, typed: Typed) -> Judgement:
        asked = self._unit
        if typed.multiplied:
            readings = [typed.number]
        elif not self.unit_shown and asked.dimension != ONE:
            message = "Say the unit too; it is part of the answer."
            return Judgement(correctness=Correctness.UNREADABLE, message=message)
        else:
            readings = [typed.number * asked.scale]
            if asked.dimension == ONE and not asked.noun:
                readings.append(typed.number)  # 0.89 is as good as 89 %
        right = any(map(self._is_close, readings))
        return Judgement(correctness=Correctness.RIGHT if right else Correctness.WRONG)

    @property
    def _unit(self) -> Unit:
        unit = units.find(self.unit)
        if unit is None:
            raise ValueError(f"{self.id} has the unknown unit '{self.unit}'")
        return unit

    def _is_of_kind(self, typed: Unit) -> bool:
        """Ratios and counts are both plain numbers, and yet 24 % is no number of messages."""
        asked = self._unit
        same_noun = typed.noun == asked.noun or {typed.noun, asked.noun} <= {"micro-batch", "microbatch"}
        return typed.dimension == asked.dimension and same_noun

    def _is_close(self, value: float) -> bool:
        """Whether a value in bytes, seconds, … is within the tolerance."""
        right = self.value * self._unit.scale
        return abs(value - right) <= self.tolerance * abs(right) + 1e-9 * abs(right)

    def _slip_of_scale(self, typed: float, unit: Unit) -> str:
        """Where the digits are right and the unit alone is not, say so."""
        asked = self._unit
        if unit.scale == asked.scale or not self._is_close(typed * asked.scale):
            return ""
        bits = " A byte has 8 bits." if unit.scale * 8 in (1, 1e3, 1e6, 1e9, 1e12) else ""
        times = unit.scale / asked.scale
        factor = f"{times:g} times" if times >= 1 else f"1/{1 / times:g} of"
        return f"The number would be right in {self.unit}, but 1 {unit.name} is {factor} 1 {self.unit}.{bits}"

    @property
    def asks_for(self) -> str:
        known = "a plain number" if self.unit == "1" else f"in {self.unit}"
        return known if self.unit_shown else "with its unit"

    @property
    def clue(self) -> str:
        given = list(_quantities(self.calculation))
        numbers = f"what is given is {', '.join(given)}." if given else "write down each quantity with its unit."
        return self.hint or numbers

    def _pointer(self, exercises: Collection[str]) -> str | None:
        """The formulas, where the exercise is there that asks for them."""
        used = formulas_of(self.calculation)
        return f"{', '.join(used)} of exercise {COST_MODEL}." if used and COST_MODEL in exercises else None

    @property
    def solution(self) -> tuple[str, ...]:
        return f"The answer is {self._shown}.", f"Calculation: {self.calculation} = {self._shown}"

    @property
    def correct(self) -> str:
        return f"{self._shown} = {self.calculation}"

    @property
    def _shown(self) -> str:
        """The value with its unit, as one writes it: 96 MB, 2x, and 0.8 where it has none."""
        digits = f"{self.value:,.10g}"
        return digits if self.unit == "1" else f"{digits}{'' if self.unit in ('x', '×') else ' '}{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """The questions on one topic, in the order of their file. `order` is the bank's place among the topics."""

    topic: str
    title: str
    order: int
    questions: tuple[Question, ...]
    path: Path


def formulas_of(calculation: str) -> tuple[str, ...]:
    """The formulas that a calculation uses, in their order and once each."""
    return tuple(dict.fromkeys(ast.unparse(call.func) for call in _calls(calculation)))


def _quantities(calculation: str) -> Iterator[str]:
    """What a calculation gives to its formulas, as one writes it: 2 GB, 16, 100 Gbit/s."""
    for call in _calls(calculation):
        for given in [*call.args, *(word.value for word in call.keywords)]:
            if not any(isinstance(node, ast.Call) for node in ast.walk(given)):
                text = ast.get_source_segment(calculation, given) or ""
                yield re.sub(r" / (?=[A-Za-z])", "/", re.sub(r" \* (?=[A-Za-z])", " ", text))


def _calls(calculation: str) -> Iterator[ast.Call]:
    """The calls of formulas in a calculation, which is read and never run."""
    for node in ast.walk(ast.parse(calculation, mode="eval")):
        if isinstance(node, ast.Call) and ast.unparse(node.func) not in ROUNDING:
            yield node
