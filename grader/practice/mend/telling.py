"""What is said of a mend: how it begins, its hints, and at the end the mistake and why it matters. Pure."""

from __future__ import annotations

from pathlib import Path

from grader.model import Check, Exercise, Outcome, Report
from grader.model.words import count
from grader.practice.mend.kept import Mend
from grader.practice.mend.pack import Packed
from grader.quiz.interview.state import clock
from grader.quiz.page import Page

REASONS = 3
"""So many checks' reasons are told."""
LATER_HINTS = slice(1, 3)
"""Of a check's hints: the page shows the first."""
ENDED = {"mended": "Mended", "late": "Not mended in time", "given up": "Given up"}


def welcome(mend: Mend, exercise: Exercise, file: Path, keys: str, page: Page) -> str:
    """What to do now, and how long there is."""
    spent = f" You go on with {clock(mend.left)} left." if mend.seconds else ""
    paragraphs = [
        f"A program for exercise {exercise.number}, {exercise.title}, has one mistake, and above is the page that it "
        f"got.{spent}",
        f"Find it and mend it in {file}",
        f"{clock(60 * mend.minutes)} in all. Keys, each with Enter: {keys}. Ctrl-C leaves as well.",
    ]
    return page.heading("Mend this") + page.prose("\n".join(paragraphs)).rstrip("\n")


def verdict(report: Report, mend: Mend) -> str:
    """How far a grade is from mended, in a sentence."""
    failed = {verdict.check.id for verdict in report.verdicts if verdict.outcome is Outcome.FAILED}
    new = failed - set(mend.fails)
    if report.status == "error":
        return "a check could not be judged, which is not your fault."
    fails = "fails" if len(failed) == 1 else "fail"
    passed = "which passed before" if new == failed else f"{len(new)} of which passed before"
    return f"{count(len(failed), 'check')} {fails}{f', {passed}' if new else ''}."


def hints(packed: Packed, exercise: Exercise) -> list[str]:
    """What can be asked for, each saying more: from the first check that fails, then where the mistake is."""
    first = _failed(packed, exercise)[0]
    idea, code = [*first.hints[LATER_HINTS], "", ""][:2]
    where = f"The mistake is in {packed.function}." if packed.function else "The mistake is outside of all functions."
    line = packed.source.splitlines()[packed.line - 1].strip()
    exact = f"As it was drawn, what is wrong begins at line {packed.line}: {line}"
    return [hint for hint in (idea.strip(), where, code.strip(), exact) if hint]


def conclusion(mend: Mend, packed: Packed, exercise: Exercise, page: Page) -> str:
    """The mistake in its author's sentence, what would be right, and why it matters."""
    grades, hints = _number(len(mend.grades), "grade"), _number(mend.hints, "hint")
    parts = [
        page.heading(ENDED[mend.status]),
        page.prose(f"{clock(mend.seconds)} of {clock(60 * mend.minutes)}, {grades}, {hints}."),
        "\n",
        page.prose(f"The mistake: {packed.mistake}"),
        "\n",
        page.prose("\n".join(["One way to mend it:", *(f"  {line}".rstrip() for line in packed.mended)])),
    ]
    for check in _failed(packed, exercise)[:REASONS]:
        parts += ["\n", page.prose(f"Why it matters, of “{check.title}”:"), page.prose(_one_line(check.why))]
    return "".join(parts).rstrip("\n")


def summary(mend: Mend, packed: Packed | None, title: str) -> str:
    """A mend in a line, for an interview's debrief."""
    took = f"{clock(mend.seconds)} of {clock(60 * mend.minutes)}"
    facts = [took, _number(len(mend.grades), "grade"), _number(mend.hints, "hint")]
    mistake = f" The mistake: {packed.mistake}" if packed and not mend.open else ""
    return f"{title}: {ENDED.get(mend.status, 'Left').lower()}; {', '.join(facts)}.{mistake}"


def _number(number: int, noun: str) -> str:
    return count(number, noun) if number else f"no {noun}"


def _failed(packed: Packed, exercise: Exercise) -> list[Check]:
    return [check for check in exercise.checks if check.id in packed.fails]


def _one_line(text: str) -> str:
    return " ".join(text.split()) or "Nobody has written why yet."
