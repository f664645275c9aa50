"""The result for what is left of GitHub Classroom, whose application GitHub has ended: a legacy.

Source: classroom-resources' "GitHub Classroom Autograding Reporter" (README, main.js, notify-classroom.js) and the
graders beside it. The job `run-autograding-tests` of a workflow "Autograding Tests" told Classroom its points by
two notices. `render` gives them as they are printed; `output` is instead for the reporter, as the output `result` of a
step that its environment names `ID_RESULTS`. Points are whole, by the same scaling as for Classroom 50
(grader.wording.whole); checks that students do not see are one test that tells their sum. The reporter prints names
and messages as they are, so they hold nothing that begins a workflow command.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from grader.model import Outcome, Report, Result, Verdict
from grader.report import for_student
from grader.wording.plain import details, within
from grader.wording.text import finite, safe, safe_report
from grader.wording.whole import WITHHELD, Whole, listed, passed, rows

MESSAGE_BYTES, MESSAGES_BYTES = 4_000, 150_000
"""Of one test, and of all together: the reporter gets them in one environment variable."""

Fields = dict[str, Any]


def render(result: Result) -> str:
    """The two notices, to be printed to the log as they are. Nothing where no check counts, as the reporter has it."""
    every = rows(result)
    score, most = sum(row.score for row in every), sum(row.max_score for row in every)
    if not most:
        return ""
    report = json.dumps({"totalPoints": score, "maxPoints": most}, separators=(",", ":"))
    return f"::notice title=Autograding complete::Points {score}/{most}\n::notice title=Autograding report::{report}\n"


def output(result: Result) -> str:
    """What a test runner of Classroom hands to the reporter: JSON in base64, on one line without an end."""
    every = rows(result)
    status = {"passed": "pass", "failed": "fail", "error": "error"}[result.status]
    tests = list(_tests(result))
    content = {"version": 1, "status": status, "max_score": sum(row.max_score for row in every), "tests": tests}
    return base64.b64encode(json.dumps(content, allow_nan=False).encode()).decode("ascii")


def _tests(result: Result) -> Iterator[Fields]:
    reports = {id(entry): for_student(safe_report(entry.report)) for entry in result.entries}
    shown, withheld = listed(result)
    room = min(MESSAGE_BYTES, MESSAGES_BYTES // max(len(shown), 1))
    for row in shown:
        report = reports[id(row.entry)]
        verdict = next(v for v in report.verdicts if v.check is row.verdict.check)
        yield _test(row, verdict, report, room, len(result.entries) > 1)
    if withheld:
        yield {
            **_fields(WITHHELD, "pass" if passed(withheld) else "fail"),
            "score": sum(row.score for row in withheld),
            "execution_time": round(sum(finite(row.verdict.seconds) for row in withheld), 3),
        }


def _test(row: Whole, verdict: Verdict, report: Report, room: int, several: bool) -> Fields:
    status = {Outcome.PASSED: "pass", Outcome.BROKEN: "error"}.get(verdict.outcome, "fail")
    name = f"{report.exercise.name}: {verdict.check.title}" if several else verdict.check.title
    line = next((finding.line for finding in verdict.findings if finding.line), 0)
    return {
        **_fields(safe(name), status),
        "score": row.score,
        "message": "\n".join(within(details(verdict, report), room)) or None,
        "test_code": report.exercise.name,
        "filename": report.submission.path.name,
        "line_no": line,
        "execution_time": round(finite(verdict.seconds), 3),
    }


def _fields(name: str, status: str) -> Fields:
    return {
        "name": name,
        "status": status,
        "score": 0,
        "message": None,
        "test_code": "",
        "filename": "",
        "line_no": 0,
        "execution_time": 0.0,
    }
