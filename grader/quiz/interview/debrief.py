"""What is said after an interview: what was missed, how long each took, what an interviewer would ask next."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from textwrap import fill

import jinja2

from grader.model import Check, Exercise
from grader.quiz.interview.state import Answer, Grade, Interview, clock
from grader.quiz.questions import Question
from grader.wording.text import points, safe

ASKED = "## What interviewers ask"
FOLLOW_UPS, WIDEST = 4, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question with what was said and what is right."""

    question: Question
    answer: Answer | None
    typed: str
    right: str

    @property
    def word(self) -> str:
        if self.answer is None:
            return "not reached"
        return {True: "right", False: "not right", None: "yours to judge"}[self.answer.right]


@dataclass(frozen=True, slots=True, kw_only=True)
class Debrief:
    """All of it, for a text and for a page."""

    interview: Interview
    exercise: Exercise
    missed: tuple[Check, ...]
    asked: tuple[Asked, ...]
    follow_ups: tuple[tuple[str, str], ...]

    @property
    def last(self) -> Grade | None:
        return self.interview.grades[-1] if self.interview.grades else None

    @property
    def score(self) -> str:
        last = self.last
        told = f"{points(last.score)} of {points(last.max_score)} points" if last else "not graded"
        return last.worth if last and last.status == "error" else told

    @property
    def took(self) -> str:
        return clock(self.interview.elapsed(self.interview.seen))

    @property
    def knew(self) -> str:
        judged = [asked for asked in self.asked if asked.answer and asked.answer.right is not None]
        return f"{sum(bool(asked.answer and asked.answer.right) for asked in judged)} of {len(judged)}"


def debrief(interview: Interview, exercise: Exercise, questions: Mapping[str, Question], statement: str) -> Debrief:
    last = interview.grades[-1] if interview.grades else None
    missed = [check for check in exercise.checks if last is None or last.checks.get(check.id) in ("failed", "blocked")]
    given = {answer.question: answer for answer in interview.answers}
    asked = [
        _asked(interview.shown(questions[name]), given.get(name)) for name in interview.questions if name in questions
    ]
    return Debrief(
        interview=interview,
        exercise=exercise,
        missed=tuple(missed),
        asked=tuple(asked),
        follow_ups=tuple(follow_ups(statement)[:FOLLOW_UPS]),
    )


def _asked(question: Question, answer: Answer | None) -> Asked:
    typed = question.said(safe(answer.typed)) if answer else ""
    return Asked(question=question, answer=answer, typed=typed, right=question.correct)


def follow_ups(statement: str) -> list[tuple[str, str]]:
    """Questions and answers of the statement's section for interviews."""
    _, found, rest = statement.partition(ASKED)
    section = rest.partition("\n## ")[0] if found else ""
    paragraphs = (" ".join(part.split()) for part in section.split("\n\n"))
    matches = (re.match(r"\*\*(.+?)\*\*\s*(.*)", paragraph) for paragraph in paragraphs)
    return [(match[1], match[2]) for match in matches if match]


def text(found: Debrief, width: int = 80) -> str:
    """The debrief for a terminal, in reading order."""
    return "\n".join(_wrapped(line, min(width, WIDEST)) for line in _lines(found))


def _wrapped(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip(" -"))]
    return fill(line, width, subsequent_indent=" " * len(indent), break_long_words=False, break_on_hyphens=False)


def _lines(found: Debrief) -> list[str]:
    count = len(found.interview.grades)
    lines = [
        f"Debrief of {found.interview.name}: {found.exercise.number} {found.exercise.title}",
        "",
        f"{found.took} of {clock(60 * found.interview.minutes)} used. Exercise: {found.score}, "
        f"{count} grade{'' if count == 1 else 's'}. Questions: {found.knew} right.",
    ]
    for number, grade in enumerate(found.interview.grades, start=1):
        lines.append(f"  grade {number} at {clock(grade.at)}: {grade.worth.replace(' / ', '/')}")
    if found.missed:
        lines += ["", "Missed in the exercise:"]
        lines += [f"  - {check.title}" for check in found.missed]
    if found.asked:
        lines += ["", "The questions:"]
    for asked in found.asked:
        took = f" in {clock(asked.answer.seconds)}" if asked.answer else ""
        lines += [f"  - {asked.question.text.strip()}", f"    {asked.word}{took}."]
        lines += [f"    You said: {' '.join(asked.typed.split())}"] if asked.typed else []
        lines += [f"    A good answer: {asked.right}", f"    Why: {' '.join(asked.question.explanation.split())}"]
    if found.follow_ups:
        lines += ["", "What an interviewer would ask next:"]
        for question, answer in found.follow_ups:
            lines += [f"  - {question}", f"    {answer}"]
    return lines


def html(found: Debrief) -> str:
    """One self-contained page to keep. It runs nothing and loads nothing."""
    template = (files("grader.quiz.interview") / "debrief.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True)
    environment.filters |= {"clock": clock, "points": points}
    return environment.from_string(template).render(found=found, code=_code)


def _code(words: str) -> list[tuple[bool, str]]:
    """A text with `code` in it, as parts: whether it is code, and the part."""
    return [(place % 2 == 1, part) for place, part in enumerate(words.split("`"))]
