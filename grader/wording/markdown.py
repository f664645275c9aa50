"""Markdown in which text from students stays text: GitHub Flavored Markdown, as its specification has it.

Nothing that a student wrote stands outside a code span or a fence, and neither can be closed from inside: a fence is
longer than any run of backticks in it, and so is a span's. That also keeps names from being mentioned and numbers from
becoming links. An author's texts are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

INLINE = re.compile(r"([\\`*_\[\]<>|~#&$@])")
"""What could begin something inside a paragraph or a table's cell."""


def escape(text: str) -> str:
    """An author's text on one line, with nothing in it that Markdown acts upon."""
    return INLINE.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Any text as a code span on one line, which may stand in a table's cell too."""
    line = " ".join(text.split()) or " "
    ticks, pad = "`" * (_longest(line) + 1), " " if "`" in line[:1] + line[-1:] else ""
    return f"{ticks}{pad}{line}{pad}{ticks}".replace("|", r"\|")


def fence(lines: Iterable[str], language: str = "text") -> list[str]:
    """Any lines as a fenced block that they cannot close."""
    shown = [part for line in lines for part in line.split("\n")]
    ticks = "`" * max(3, _longest("\n".join(shown)) + 1)
    return [f"{ticks}{language}", *shown, ticks]


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> list[str]:
    """A table of cells that are Markdown already; `align` has a letter a column, r for right."""
    marks = ["---:" if letter == "r" else "---" for letter in align.ljust(len(head), "l")]
    return [_row(head), _row(marks), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _longest(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
