"""Questions whose answer is a number with a unit: how one is judged, and what can be said of its calculation."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from grader.quiz import answers, units
from grader.quiz.answers import Correctness, Judgement, Typed
from grader.quiz.calculation import ROUNDING, as_written
from grader.quiz.questions import Question
from grader.quiz.units import ONE, PER_SECOND, Unit

COST_MODEL = "19"
"""The exercise that asks for the formulas which `formula` names."""
_HOW_MANY = re.compile(r"how many ((?:[\w-]+\s?)+)", re.IGNORECASE)
_HOW_OFTEN = re.compile(r"how often", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberQuestion(Question):
    """A number with a unit. An answer is right within `tolerance`, relative to `value`. `calculation` is an expression
    of numbers and units whose value that is, and so is `formula`, by the formulas of the cost model where there is one;
    authoring/quiz_lint holds them to that. `unit_shown` says whether the unit is told."""

    value: float
    unit: str
    tolerance: float
    calculation: str
    formula: str = ""
    unit_shown: bool = True

    typing_seconds = 12

    def judge(self, typed: str) -> Judgement:
        read, meant = self._read(typed), answers.in_words(typed, self._asked_words)
        if any(self._is_close(number * self._unit.scale) for number in meant):
            return Judgement(correctness=Correctness.RIGHT)
        asked_again = read.correctness in (Correctness.UNREADABLE, Correctness.WRONG_UNIT)
        return Judgement(correctness=Correctness.WRONG) if meant and asked_again else read

    def _read(self, typed: str) -> Judgement:
        """By the unit that was typed, if any."""
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
    def _asked_words(self) -> list[str]:
        """The words that the question itself has for what it asks, and those after them: indices does each rank …"""
        asked = _HOW_MANY.findall(self.text) or ["times" if _HOW_OFTEN.search(self.text) else ""]
        return answers.words_of(asked[-1])

    @property
    def _unit(self) -> Unit:
        unit = units.find(self.unit)
        if unit is None:
            raise ValueError(f"{self.id} has the unknown unit '{self.unit}'")
        return unit

    def _is_of_kind(self, typed: Unit) -> bool:
        """Ratios and counts are both plain numbers, and yet 24 % is no number of messages."""
        asked = self._unit
        same_noun = typed.noun == asked.noun or (typed.dimension == PER_SECOND and not typed.noun)
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
        plain = {"1": "a plain number", "x": "a factor, as 1.5x"}
        known = plain.get(self.unit) or f"in {self.unit}"
        return known if self.unit_shown else "with its unit"

    @property
    def clue(self) -> str:
        given = list(_quantities(self.formula))
        numbers = f"what is given is {', '.join(given)}." if given else "write down each quantity with its unit."
        return self.hint or numbers

    def _pointer(self, exercises: Collection[str]) -> str | None:
        """The formulas, where the exercise is there that asks for them."""
        used = formulas_of(self.formula)
        return f"{', '.join(used)} of exercise {COST_MODEL}." if used and COST_MODEL in exercises else None

    @property
    def solution(self) -> tuple[str, ...]:
        return f"The answer is {self.shown}.", f"Calculation: {as_written(self.calculation)} = {self.shown}"

    @property
    def correct(self) -> str:
        return f"{self.shown} = {as_written(self.calculation)}"

    @property
    def shown(self) -> str:
        """The value with its unit, as one writes it: 96 MB, 2x, and 0.8 where it has none."""
        digits = f"{self.value:,.10g}"
        return digits if self.unit == "1" else f"{digits}{'' if self.unit in ('x', '×') else ' '}{self.unit}"


def formulas_of(text: str) -> tuple[str, ...]:
    """The formulas that a text uses, in their order and once each."""
    return tuple(dict.fromkeys(ast.unparse(call.func) for call in _calls(text)))


def _quantities(text: str) -> Iterator[str]:
    """What a text gives to its formulas, as one writes it: 2 GB, 16, 100 Gbit/s."""
    for call in _calls(text):
        for given in [*call.args, *(word.value for word in call.keywords)]:
            if not any(isinstance(node, ast.Call) for node in ast.walk(given)):
                yield as_written(ast.get_source_segment(text, given) or "")


def _calls(text: str) -> Iterator[ast.Call]:
    """The calls of formulas in a text, which is read and never run."""
    for node in ast.walk(ast.parse(text or "0", mode="eval")):
        if isinstance(node, ast.Call) and ast.unparse(node.func) not in ROUNDING:
            yield node
