"""Chains of questions in numbers that are drawn anew: each later one rests on what came out before."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from grader.quiz import units
from grader.quiz.calculation import as_written, evaluate
from grader.quiz.numbers import NumberQuestion
from grader.quiz.questions import CardQuestion, Item, Question

DIGITS = 4
"""To so many a result is rounded, which is how the next question tells it and goes on from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One question of a chain. In its texts and in its calculation `{word}` stands for what was drawn or what an
    earlier step with that `name` came to. `formula` is the same by the formulas of the cost model and the planner, of
    what was drawn alone, or empty; the lint holds the results to it, and nobody is shown it."""

    name: str
    text: str
    unit: str
    tolerance: float
    calculation: str
    explanation: str
    formula: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(Item):
    """`text` is the setting. `drawn` has, for each word, the values of which one is drawn each time: calculations, such
    as "16" and "100 * Gbit / s"."""

    drawn: Mapping[str, tuple[str, ...]]
    steps: tuple[Step, ...]

    typing_seconds = 12
    units_shown: ClassVar[bool] = True
    """Whether a question tells the unit of its answer, where it has one."""

    def asked(self, seed: str) -> tuple[Question, ...]:
        return self.with_values(self.drawn_by(seed))

    def setting(self, seed: str) -> str:
        return _told(self.text, self.drawn_by(seed))

    def drawn_by(self, seed: str) -> Mapping[str, str]:
        """What a seed draws."""
        chance = random.Random(seed)
        return {word: chance.choice(values) for word, values in self.drawn.items()}

    def draws(self) -> Iterator[Mapping[str, str]]:
        """Everything that can be drawn."""
        for values in itertools.product(*self.drawn.values()):
            yield dict(zip(self.drawn, values, strict=True))

    def with_values(self, drawn: Mapping[str, str]) -> tuple[Question, ...]:
        """The questions for one draw, the setting told with the first. Raises ValueError where a calculation has no
        value, or one of another kind than its unit, and KeyError for a word that stands for nothing."""
        first, *others = self.numbers(drawn)
        return (replace(first, text=f"{_told(self.text, drawn)}\n\n{first.text}"), *others)

    def formulas(self, drawn: Mapping[str, str]) -> tuple[str, ...]:
        """For one draw what each part is by formulas, empty where it has none."""
        calculated = _bracketed(drawn)
        return tuple(step.formula.format_map(calculated) for step in self.steps)

    def numbers(self, drawn: Mapping[str, str]) -> tuple[NumberQuestion, ...]:
        """The questions in numbers, without the setting."""
        written, calculated = {word: as_written(value) for word, value in drawn.items()}, _bracketed(drawn)
        questions: list[NumberQuestion] = []
        for step in self.steps:
            is_last = step is self.steps[-1]
            question = NumberQuestion(
                id=self.id,
                topic=self.topic,
                text=step.text.format_map(written),
                difficulty=self.difficulty,
                line=self.line,
                exercise=self.exercise if is_last else None,
                source=self.source if is_last else None,
                explanation="",
                value=_in_unit(calculation := step.calculation.format_map(calculated), step.unit),
                unit=step.unit,
                tolerance=step.tolerance,
                calculation=calculation,
                unit_shown=self.units_shown or _is_plain(step.unit),
            )
            calculated |= _bracketed({step.name: _as_calculation(question)})
            written[step.name] = question.shown
            questions.append(replace(question, explanation=step.explanation.format_map(written)))
        return tuple(questions)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignCase(Chain):
    """A design with a cluster's figures: what one would say first, and then the numbers. `opening` asks for the first;
    `rubric` is what a good answer has in it, which the person ticks; units are part of the answers."""

    opening: str
    rubric: tuple[str, ...]
    explanation: str

    units_shown = False

    def with_values(self, drawn: Mapping[str, str]) -> tuple[Question, ...]:
        return (self.opened(drawn), *self.numbers(drawn))

    def points(self, seed: str) -> tuple[str, ...]:
        """The rubric for the draw of a seed."""
        return tuple(_told(each, self.drawn_by(seed)) for each in self.rubric)

    def asks_first(self, seed: str) -> str:
        """What the opening asks, without the setting."""
        return _told(self.opening, self.drawn_by(seed))

    def opened(self, drawn: Mapping[str, str]) -> CardQuestion:
        """The open question, whose answer is the rubric."""
        return CardQuestion(
            id=self.id,
            topic=self.topic,
            text=f"{_told(self.text, drawn)}\n\n{_told(self.opening, drawn)}",
            difficulty=self.difficulty,
            line=self.line,
            explanation=_told(self.explanation, drawn),
            answer="\n".join(["", *(f"- {_told(each, drawn)}" for each in self.rubric)]),
        )


def _told(text: str, drawn: Mapping[str, str]) -> str:
    """A text with what was drawn in it."""
    return text.format_map({word: as_written(value) for word, value in drawn.items()})


def _bracketed(values: Mapping[str, str]) -> dict[str, str]:
    """What stands for a word in a calculation: in brackets where it has more than one part."""
    return {word: f"({value})" if " " in value else value for word, value in values.items()}


def _in_unit(calculation: str, unit_name: str) -> float:
    unit, found = units.find(unit_name), evaluate(calculation)
    if unit is None:
        raise ValueError(f"the unit '{unit_name}' is not known")
    if unit.dimension != found.dimension:
        raise ValueError(f"'{calculation}' gives no {unit_name}")
    value = found.value / unit.scale
    if _counts(unit_name) and math.isclose(value, round(value), rel_tol=1e-9):
        return float(round(value))
    return float(f"{value:.{DIGITS}g}")


def _is_plain(unit_name: str) -> bool:
    """Whether there is no unit to ask for."""
    return unit_name == "1"


def _counts(unit_name: str) -> bool:
    unit = units.find(unit_name)
    return unit is not None and bool(unit.noun)


def _as_calculation(question: NumberQuestion) -> str:
    """A result as a later calculation has it: 12.5 * GB, 100 * GB / s, 87.5 / 100, 24."""
    number = f"{question.value:.12g}"
    if question.unit == "%":
        return f"{number} / 100"
    if question.unit in ("1", "x") or _counts(question.unit):
        return number
    return f"{number} * {question.unit.replace('/', ' / ').replace('days', 'day')}"
