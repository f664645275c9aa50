"""The result as Gradescope's results.json, which run_autograder writes to /autograder/results/results.json.

Source: Gradescope's "Autograder Specifications" (Output format, Controlling test case visibility).

Output is `ansi`: a fixed-width page, so that carets stay under their columns and the table of a deadlock stays one, in
the colours of the terminal's page. `md` would show values through a Markdown dialect that is not documented; in
ANSI nothing but an escape character acts, and none that a student prints gets here.

The score: the assignment on the platform is worth a fixed number of points, so what skipped checks are worth must not
be lost. `score` is `result.points * result.score / result.max_score`, and the tests' points are scaled alike.
It overrides the sum of the tests, which tell what was earned before points for lateness went off; the output says how
many did. Where there is no mark there is no score at all, neither at the top nor of a test ("optional, but required if
not on each test case"): the platform then reports a failed autograder to the staff and keeps no score, where a 0 or the
other checks' points would be taken for a grade. The output says so. Uncounted tests have neither points nor status.

Each test carries its check's own visibility, so what a hidden one says is for the staff alone until the platform shows
it. All that is always visible, the output at the top first, is made from what students may see: it tells
the points of the shown checks only. The platform's own stdout is hidden, as anything may be printed there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rich.text import Text

from grader.model import Entry, Outcome, Report, Result, Verdict
from grader.scoring import finite
from grader.visibility import for_student
from grader.wording.advice import replay
from grader.wording.layout import paint
from grader.wording.marks import MARKS, NO_MARK
from grader.wording.plain import beginning, details, finding_lines, printed, within
from grader.wording.text import points, safe_report

TOP_BYTES = 150_000
TESTS_BYTES = 600_000
"""Of all the tests' outputs together: the file stays well under a megabyte."""

Fields = dict[str, Any]


def render(result: Result) -> str:
    """The result as one JSON object, ending with a newline."""
    entries = tuple(replace(entry, report=safe_report(entry.report)) for entry in result.entries)
    result = replace(result, entries=entries)
    factor = result.points / result.max_score if result.max_score > 0 else 0.0
    count = sum(len(entry.report.verdicts) for entry in result.entries)
    room = TESTS_BYTES // max(count, 1)
    content: Fields = {
        "execution_time": round(sum(finite(entry.report.seconds) for entry in result.entries), 3),
        "output": _painted(_top(result, factor), TOP_BYTES),
        "output_format": "ansi",
        "test_output_format": "ansi",
        "test_name_format": "text",
        "stdout_visibility": "hidden",
        "tests": [
            test
            for number, entry in enumerate(result.entries, 1)
            for test in _tests(result, entry, number, factor, room)
        ],
    }
    if result.mark is not None:
        content = {"score": _points(result.mark * factor), **content}
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


# ── one test a check ──


def _tests(result: Result, entry: Entry, number: int, factor: float, room: int) -> Iterator[Fields]:
    """The checks of one exercise. Only what is withheld is judged with the runs that are."""
    whole = entry.report
    shown = for_student(whole)
    several = len(result.entries) > 1
    for index, verdict in enumerate(whole.verdicts, 1):
        visible = verdict.check.visibility == "visible"
        test = {
            "name": f"{whole.exercise.name}: {verdict.check.title}" if several else verdict.check.title,
            "name_format": "text",
            "number": f"{number}.{index}" if several else str(index),
            "output": _painted(_body(verdict, shown if visible else whole), room),
            "output_format": "ansi",
            "tags": [whole.exercise.name, verdict.outcome.value],
            "visibility": verdict.check.visibility,
            "extra_data": {
                "exercise": whole.exercise.name,
                "check": verdict.check.id,
                "outcome": verdict.outcome.value,
            },
        }
        graded = result.mark is not None and verdict.outcome.counted
        yield {**(_graded(verdict, entry.scale * factor) if graded else {}), **test}


def _graded(verdict: Verdict, scale: float) -> Fields:
    status = "passed" if verdict.outcome is Outcome.PASSED else "failed"
    return {
        "score": _points(verdict.score * scale),
        "max_score": _points(verdict.check.points * scale),
        "status": status,
    }


def _body(verdict: Verdict, report: Report) -> list[Text]:
    mark, style = MARKS[verdict.outcome]
    head = Text.assemble((f"{mark} {verdict.outcome.value}", style))
    return [head, *map(_line, details(verdict, report))]


# ── the output at the top ──


def _top(result: Result, factor: float) -> list[Text]:
    lines: list[Text] = [Text(NO_MARK, "yellow")] if result.status == "error" else []
    for entry in result.entries:
        told = "" if result.mark is None else _told(entry, factor)
        shown = for_student(entry.report, entry.scale * factor)
        lines += [*([Text()] if lines else []), *_exercise(entry, shown, told)]
    if result.mark is None and result.status != "error":
        told = "No check could be graded. This is not your fault, and your instructors can see that."
        lines += [Text(), Text(told, "yellow")]
    return lines


def _told(entry: Entry, factor: float) -> str:
    """The points of one exercise, as far as students may know."""
    report, scale = for_student(entry.report), entry.scale * factor
    earned, most = points(_points(report.score * scale)), points(_points(report.max_score * scale))
    return f"{earned} of {most} points in the checks shown"


def _exercise(entry: Entry, report: Report, told: str) -> list[Text]:
    lines = [Text.assemble((report.exercise.name, "bold"), f"  {report.exercise.title}")]
    lines += [Text(told)] if told else []
    left_out = sum(v.check.points for v in report.verdicts if not v.outcome.counted)
    if left_out:
        lines.append(Text("Checks that are not counted leave what they are worth to the others.", "dim"))
    if entry.late:
        lines.append(Text(entry.late.told, "yellow"))
    problem = report.submission.problem
    if problem:
        lines += [Text(), *map(_line, finding_lines(problem, report.exercise))]
    for label, output in printed(report):
        lines += [Text(), Text(f"{label}:", "bold"), *(Text(f"  {line}") for line in output)]
    if start := beginning(report):
        lines += [Text(), Text(start)]
    lines += [Text(f"Note: {note}") for note in report.notes]
    return [*lines, Text(), Text(f"To see this again: {' '.join(replay(report))}", "dim")]


# ── text ──


def _line(text: str) -> Text:
    line = Text(text)
    line.highlight_regex(r"^  (?:expected|got) ", "dim")
    line.highlight_regex(r"^Hint:", "cyan")
    return line


def _painted(lines: list[Text], room: int) -> str:
    painted = paint(lines, color=True).rstrip("\n").split("\n")
    return "\n".join(within(painted, room, size=lambda line: len(json.dumps(line, ensure_ascii=False).encode())))


def _points(value: float) -> float:
    return round(finite(value), 4)
