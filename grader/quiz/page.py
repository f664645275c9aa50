"""How questions, outcomes and the summary look. Text in reading order; `plain` draws nothing and colours nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from textwrap import fill, indent

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from grader.quiz.answers import LETTERS
from grader.quiz.questions import Question
from grader.wording.paper import on_paper

WIDEST = 96
"""Columns. Longer lines of prose are hard to read."""
FURTHER = 4
"""Columns by which a line of code that does not fit goes on further in."""
STYLES = {"right": "bold green", "wrong": "bold red", "note": "cyan", "title": "bold"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A terminal: how wide, in colour or not, plain for screen readers or not. One that may be resized says how wide
    it is each time that it is asked."""

    plain: bool = False
    color: bool = False
    width: int | Callable[[], int] = 80

    def heading(self, words: str) -> str:
        """The line above a question."""
        if self.plain:
            return f"\n{words}\n"
        if len(words) + 4 > self._columns:  # a rule would cut them
            return "\n" + self.prose(words, style="title")
        return "\n" + self._paper(Rule(Text(f" {words} ", style=STYLES["title"]), align="left", style="dim"))

    @property
    def _columns(self) -> int:
        return max(min(self.width if isinstance(self.width, int) else self.width(), WIDEST), 24)

    def prose(self, text: str, style: str = "", hang: str = "") -> str:
        """Paragraphs, wrapped to the width; indented lines stay as they are, but for what would not fit, which goes on
        further in. `hang` stands before the first line."""
        parts = [self._paragraph(line, style, hang if not index else " " * len(hang))
                 for index, line in enumerate(text.split("\n"))]  # fmt: skip
        return self._paper(Group(*parts))

    def _paragraph(self, line: str, style: str, hang: str) -> RenderableType:
        room = max(self._columns - len(hang), 20)
        further = " " * (len(line) - len(line.lstrip()) + FURTHER) if line.startswith("  ") else ""
        kept = bool(further) and len(line) <= room
        lines = line if kept else fill(line, room, subsequent_indent=further, break_long_words=False,
                                       break_on_hyphens=False)  # fmt: skip
        shown = indent(lines, " " * len(hang))
        text = Text(hang + shown[len(hang) :] if hang else shown, style="" if self.plain else STYLES.get(style, ""))
        return Padding(text, 0, expand=False)

    def _paper(self, thing: RenderableType) -> str:
        return on_paper(thing, color=self.color and not self.plain, width=self._columns)

    # -- a question ---------------------------------------------------------------------------------------------------

    def question(self, question: Question, heading: str) -> str:
        """A question as it is put, with its options."""
        parts = [self.heading(heading), self.prose(question.text)]
        options = [self.prose(text, hang=f"  {LETTERS[place]}) ") for place, text in enumerate(question.choices)]
        return "".join([*parts, *(["\n"] if options else []), *options]).rstrip("\n")

    def outcome(self, right: bool, note: str = "") -> str:
        """Right or wrong, in words and in a sign; the colour repeats it."""
        sign = "" if self.plain else ("✓ " if right else "✗ ")
        word = f"{sign}{'Right' if right else 'Not right'}.{' ' + note if note else ''}"
        return self.prose(word, style="right" if right else "wrong").rstrip("\n")

    def answer(self, question: Question) -> str:
        """What is right and why, and where that is from."""
        parts = [self.prose(sentence) for sentence in question.solution]
        parts += ["\n", self.prose(question.explanation)]
        if question.source:
            parts.append(self.prose(f"Source: {question.source}", style="note"))
        if question.exercise:
            parts.append(self.prose(f"Exercise {question.exercise} is about this.", style="note"))
        return "".join(parts).rstrip("\n")


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
