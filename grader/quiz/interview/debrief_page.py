"""A debrief as a text and as a page in HTML."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from textwrap import fill

import jinja2

from grader.model.words import count
from grader.quiz.interview.debrief import ENDINGS, Asked, Debrief
from grader.quiz.interview.state import clock
from grader.wording.text import points

WIDEST = 100
MARKS = {True: "[x]", False: "[ ]", None: "[?]"}
"""Whether a point was made; ? where nobody has said so."""


def text(found: Debrief, width: int = 80) -> str:
    """The debrief for a terminal, in reading order."""
    return "\n".join(_wrapped(line, min(width, WIDEST)) for part in _parts(found) for line in part)


def _wrapped(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip(" -"))]
    return fill(line, width, subsequent_indent=" " * len(indent), break_long_words=False, break_on_hyphens=False)


def _parts(found: Debrief) -> Iterator[list[str]]:
    far = f" {found.far[:1].upper()}{found.far[1:]}." if found.far else ""
    yield [
        f"Debrief of {found.interview.name}: {found.exercise.number} {found.exercise.title}",
        "",
        f"{found.took} of {clock(60 * found.interview.minutes)} used. Exercise: {found.score}, "
        f"{count(len(found.interview.grades), 'grade')}.{far} Questions: {found.knew}.",
    ]
    yield [f"  {words} {when}." for words, when in found.moments]
    yield _titled("Levels:", [line for each in found.levels for line in (
        f"  - {each.number}. {each.word}: {each.says}", *(f"    Took {hint}." for hint in each.hints))])  # fmt: skip
    yield _titled("Grades:", [
        f"  - {number} at {clock(grade.at)}{f', level {grade.level}' if grade.level else ''}: "
        f"{grade.worth.replace(' / ', '/')}"
        for number, grade in enumerate(found.interview.grades, start=1)
    ])  # fmt: skip
    yield _titled("Wrong turns, by check:", [f"  - {turn.check.title}: {turn.word}." for turn in found.turns])
    yield _titled("How runs went wrong:", [
        f"  - {ENDINGS.get(kind, kind)}, in {count(number, 'run')}" for kind, number in found.endings])  # fmt: skip
    yield _titled("Missed in the exercise:", [f"  - {check.title}" for check in found.missed])
    yield _titled("What was to be mended:", [f"  - {line}" for line in found.mends])
    yield _titled("The questions:", [line for asked in found.asked for line in _question(asked)])
    yield _titled("What to repeat:", [f"  - {what}: {when}" for what, when in found.repeats])
    yield _titled("What an interviewer would ask next:", [
        line for question, answer in found.follow_ups for line in (f"  - {question}", f"    {answer}")])  # fmt: skip


def _titled(title: str, lines: list[str]) -> list[str]:
    return ["", title, *lines] if lines else []


def _question(asked: Asked) -> list[str]:
    took = f" in {clock(asked.answer.seconds)}" if asked.answer else ""
    first, *others = [line for line in asked.question.text.strip().split("\n") if line]
    lines = [f"  - {first}", *(f"    {line}" for line in others), f"    {asked.word}{took}."]
    lines += [f"    You said: {' '.join(asked.typed.split())}"] if asked.typed else []
    if asked.ticks:
        marks = MARKS if asked.answer else dict.fromkeys(MARKS, "-")
        lines += ["    A good answer has in it:", *(f"    {marks[made]} {line}" for line, made in asked.ticks)]
    else:
        lines.append(f"    A good answer: {asked.right}")
    return [*lines, f"    Why: {' '.join(asked.question.explanation.split())}"]


def html(found: Debrief) -> str:
    """One self-contained page to keep. It runs nothing and loads nothing."""
    template = (files("grader.quiz.interview") / "debrief.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True)
    environment.filters |= {"clock": clock, "points": points, "count": count}
    environment.filters["ending"] = lambda kind: ENDINGS.get(kind, kind)
    return environment.from_string(template).render(found=found, code=_code)


def _code(words: str) -> list[tuple[bool, str]]:
    """A text with `code` in it, as parts: whether it is code, and the part."""
    return [(place % 2 == 1, part) for place, part in enumerate(words.split("`"))]
