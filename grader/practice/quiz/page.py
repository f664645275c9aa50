"""How questions, outcomes and the summary look. Text in reading order; `plain` draws nothing and colours nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from textwrap import fill, indent

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from grader.catalog.questions import CardQuestion, ChoiceQuestion, NumberQuestion, Question
from grader.practice.paper import on_paper
from grader.practice.quiz import calculation, units
from grader.practice.quiz.answers import LETTERS

WIDEST = 96
"""Columns. Longer lines of prose are hard to read."""
STYLES = {"right": "bold green", "wrong": "bold red", "note": "cyan", "title": "bold"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A terminal: how wide, in colour or not, plain for screen readers or not."""

    plain: bool = False
    color: bool = False
    width: int = 80

    def heading(self, words: str) -> str:
        """The line above a question."""
        if self.plain:
            return f"\n{words}\n"
        return "\n" + self._paper(Rule(Text(f" {words} ", style=STYLES["title"]), align="left", style="dim"))

    def prose(self, text: str, style: str = "", hang: str = "") -> str:
        """Paragraphs, wrapped to the width; indented lines stay as they are. `hang` stands before the first line."""
        parts = [self._paragraph(line, style, hang if not index else " " * len(hang))
                 for index, line in enumerate(text.split("\n"))]  # fmt: skip
        return self._paper(Group(*parts))

    def _paragraph(self, line: str, style: str, hang: str) -> RenderableType:
        width = min(self.width, WIDEST)
        lines = line if line.startswith("  ") else fill(line, max(width - len(hang), 20), break_long_words=False,
                                                        break_on_hyphens=False)  # fmt: skip
        shown = indent(lines, " " * len(hang))
        text = Text(hang + shown[len(hang) :] if hang else shown, style="" if self.plain else STYLES.get(style, ""))
        return Padding(text, 0, expand=False)

    def _paper(self, thing: RenderableType) -> str:
        return on_paper(thing, color=self.color and not self.plain, width=max(min(self.width, WIDEST), 24))

    # -- a question ---------------------------------------------------------------------------------------------------

    def question(self, question: Question, heading: str, shown: Sequence[int]) -> str:
        """A question as it is put, options in the order of `shown`."""
        parts = [self.heading(heading), self.prose(question.text)]
        if isinstance(question, ChoiceQuestion):
            parts += ["\n"]
            parts += [self.prose(question.options[index].text, hang=f"  {LETTERS[place]}) ")
                      for place, index in enumerate(shown)]  # fmt: skip
        return "".join(parts).rstrip("\n")

    def outcome(self, right: bool, note: str = "") -> str:
        """Right or wrong, in words and in a sign; the colour repeats it."""
        sign = "" if self.plain else ("✓ " if right else "✗ ")
        word = f"{sign}{'Right' if right else 'Not right'}.{' ' + note if note else ''}"
        return self.prose(word, style="right" if right else "wrong").rstrip("\n")

    def answer(self, question: Question, shown: Sequence[int], typed: int | None = None) -> str:
        """What is right and why: the option and what is wrong about the one that was typed, or the calculation."""
        parts = [self.prose(line) for line in _answer_lines(question, shown, typed)]
        parts += ["\n", self.prose(question.explanation)]
        if question.source:
            parts.append(self.prose(f"Source: {question.source}", style="note"))
        if question.exercise:
            parts.append(self.prose(f"Exercise {question.exercise} is about this.", style="note"))
        return "".join(parts).rstrip("\n")


def _answer_lines(question: Question, shown: Sequence[int], typed: int | None) -> list[str]:
    if isinstance(question, ChoiceQuestion):
        lines = []
        if typed is not None and not question.options[shown[typed]].right:
            lines.append(f"You chose {LETTERS[typed]}: {question.options[shown[typed]].why}.")
        return [
            *lines,
            f"The answer is {LETTERS[list(shown).index(question.right)]}) {question.options[question.right].text}",
        ]
    if isinstance(question, NumberQuestion):
        return [f"The answer is {number(question)}.", f"Calculation: {calculated(question)}"]
    assert isinstance(question, CardQuestion)
    return [f"A good answer: {question.answer}"]


def number(question: NumberQuestion) -> str:
    """The value with its unit, as one writes it."""
    return united(f"{question.value:,.10g}", question.unit)


def united(digits: str, unit: str) -> str:
    """A number before its unit: 96 MB, 2x, and 0.8 where it has none."""
    return digits if unit == "1" else f"{digits}{'' if unit in ('x', '×') else ' '}{unit}"


def calculated(question: NumberQuestion) -> str:
    """The calculation and what it gives, before rounding."""
    unit = units.find(question.unit)
    assert unit is not None
    value = calculation.evaluate(question.calculation).value / unit.scale
    return f"{question.calculation} = {united(f'{value:,.4g}', question.unit)}"


def span(time: timedelta) -> str:
    """A time to come in the largest unit that fits: in 20 hours, in 3 days."""
    hours = max(time, timedelta(0)) / timedelta(hours=1)
    for size, name in ((24.0, "day"), (1.0, "hour")):
        count = round(hours / size)
        if hours >= 0.95 * size:
            return f"in {count} {name}{'s' if count != 1 else ''}"
    return "in less than an hour"


def when(due: Sequence[datetime], now: datetime) -> str:
    """When the next questions are due, and how many within a day of the first."""
    first = min(due)
    near = sum(moment <= first + timedelta(hours=12) for moment in due)
    return f"{near} question{'s' if near != 1 else ''} due {span(first - now)}"
