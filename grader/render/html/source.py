"""The student's source, line by line: numbered, coloured, marked. The text is hostile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import PythonLexer  # type: ignore[import-untyped]

from grader.model import Submission
from grader.wording.text import source_lines

MOST_LINES, AROUND = 2_000, 12
"""Lines of a file that are shown; beyond those only what stands around a marked line."""

LONGEST_LINE = 1_000
MOST_COLOURED = 50_000
"""Characters. What is longer stays without colours: a colour takes thirty bytes, and a file may keep a lexer busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something to be said at a line. `target` is the id of what says more, `note` a few words."""

    note: str
    target: str
    bad: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line. `skipped` counts the lines before it that are not shown."""

    number: int
    code: Markup
    marks: tuple[Mark, ...] = ()
    skipped: int = 0


def shown_lines(submission: Submission, marks: Mapping[int, Sequence[Mark]]) -> tuple[Line, ...]:
    """The file with its marks; nothing where there is no file."""
    texts = [_cut(text) for text in source_lines(submission)]
    while texts and not texts[-1].strip():
        texts.pop()
    return tuple(_chosen(coloured(texts), marks))


def _chosen(codes: Sequence[Markup], marks: Mapping[int, Sequence[Mark]]) -> Iterator[Line]:
    near = {number for line in marks for number in range(line - AROUND, line + AROUND + 1)}
    skipped = 0
    for number, code in enumerate(codes, 1):
        if number <= MOST_LINES or number in near:
            yield Line(number=number, code=code, marks=tuple(marks.get(number, ())), skipped=skipped)
            skipped = 0
        else:
            skipped += 1
    if skipped:
        yield Line(number=len(codes), code=codes[-1], skipped=skipped - 1)


def coloured(texts: Sequence[str]) -> list[Markup]:
    """Each line as HTML with Pygments' classes, or merely escaped where that cannot be had line by line."""
    if sum(map(len, texts)) <= MOST_COLOURED:
        lexer = PythonLexer(stripnl=False, stripall=False, ensurenl=True)
        html = highlight("\n".join(texts), lexer, HtmlFormatter(nowrap=True))
        lines = html.removesuffix("\n").split("\n")
        if len(lines) == len(texts):
            return [Markup(line) for line in lines]
    return list(map(escape, texts))


def _cut(text: str) -> str:
    text = text.rstrip()
    return (
        text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}… ({len(text) - LONGEST_LINE:,} more characters)"
    )


def marked(pairs: Iterable[tuple[int | None, Mark]]) -> dict[int, list[Mark]]:
    """The marks by line. What says the same at the same line is said once."""
    marks: dict[int, list[Mark]] = {}
    for line, mark in pairs:
        if line and mark.note not in [other.note for other in marks.setdefault(line, [])]:
            marks[line].append(mark)
    return marks
