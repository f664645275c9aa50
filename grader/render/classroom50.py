"""The result as Classroom 50's result.json, schema `classroom50/result/v1`, and the body of the submission's release.

Sources: Classroom 50's wiki, "Advanced Autograding" (The `result.json` contract), its `result-v1.schema.json`, and
"Autograding Basics" (at most 100 tests, names of at most 100 bytes without control characters, each once), which is the
rule for declarative tests and is kept here so that the rows fit wherever those do.

Scores are whole there. Scaling (grader.scoring): whole points stay as they are; otherwise the total is the
result's points if that is a whole number, else at least 100, shared among the checks by largest remainders, so that
rows add up exactly and a check that passed never gets less than its maximum. Late points go off an exercise's sum,
which is rounded half up.

Rows: a check that passed is `passed`, all others are not. A skipped check has no row, as it would be a red cross for
hardware that the runner lacks, unless no other row is left: a result without tests is taken for a pass. Checks that
students do not see are one row that tells their sum; it passed if all of them did. Beyond 100 rows, the last one stands
for the rest.

The contract has no place for a result without a score. Where there is no mark because a check is broken, whoever calls
this writes release-body.md alone, which says so, and leaves with an exit code other than 0: that is a broken autograder
there, which records nothing. Otherwise both files are written and the code is 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from grader.model import Result
from grader.model.errors import UsageError
from grader.scoring import SCALING, WITHHELD, all_passed, listed, whole_points
from grader.visibility import for_student
from grader.wording.markdown import escape, table
from grader.wording.marks import NO_MARK
from grader.wording.summary import Block, page, sections
from grader.wording.text import safe_report

SCHEMA = "classroom50/result/v1"
MOST_TESTS, NAME_BYTES = 100, 100
RELEASE_BYTES = 120_000
"""GitHub takes 125,000 characters; the workflow adds its own lines."""

INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ", re.ASCII)

Fields = dict[str, Any]


def render(result: Result, context: Mapping[str, str]) -> str:
    """The result as one JSON object, ending with a newline; empty where there is no mark because a check is broken.

    `context` is the environment that Classroom 50's autograde-runner gives to autograder.py: CLASSROOM, ASSIGNMENT,
    SUBMISSION_TAG, COMMIT_URL, RELEASE_URL, OWNER or USERNAME, and where they are set REVIEW_URL and ASSIGNMENT_TYPE.
    The caller adds DATETIME, the time of the hand-in in UTC as 2026-06-01T14:32:01Z, and may add GRADED_AT.
    Raises UsageError where something is missing or not of that form.
    """
    if result.entries and result.status == "error":
        return ""
    tests = _tests(result)
    content = {
        "schema": SCHEMA,
        "classroom": _wanted(context, "CLASSROOM"),
        "assignment": _wanted(context, "ASSIGNMENT"),
        "assignment_type": context.get("ASSIGNMENT_TYPE") or "individual",
        "owner": _wanted(context, "OWNER", "USERNAME"),
        "submission": _tag(context),
        "commit": _wanted(context, "COMMIT_URL"),
        "release": _wanted(context, "RELEASE_URL"),
        "review": context.get("REVIEW_URL") or _wanted(context, "COMMIT_URL"),
        "datetime": _instant(context, "DATETIME"),
        **({"graded_at": _instant(context, "GRADED_AT")} if context.get("GRADED_AT") else {}),
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }
    return json.dumps(content, ensure_ascii=True, allow_nan=False, indent=2) + "\n"


def _wanted(context: Mapping[str, str], *names: str) -> str:
    value = next((context[name] for name in names if context.get(name)), "")
    if not value:
        raise UsageError(
            f"{' or '.join(names)} is not set: Classroom 50's autograde-runner workflow sets it for autograder.py, "
            "so write this format there or set it yourself."
        )
    return value


def _tag(context: Mapping[str, str]) -> str:
    tag = _wanted(context, "SUBMISSION_TAG")
    if not tag.startswith("submit/"):
        raise UsageError("SUBMISSION_TAG must begin with submit/, as Classroom 50's autograde-runner workflow sets it.")
    return tag


def _instant(context: Mapping[str, str], name: str) -> str:
    value = context.get(name, "")
    if not INSTANT.fullmatch(value):
        raise UsageError(f"{name} must be a time in UTC such as 2026-06-01T14:32:01Z, the commit's committer date.")
    return value


# ── rows ──


def _tests(result: Result) -> list[Fields]:
    tests = [_test(*row) for row in _rows(result)]
    if len(tests) > MOST_TESTS:
        rest = tests[MOST_TESTS - 1 :]
        score, most = (sum(test[key] for test in rest) for key in ("score", "max-score"))
        tests[MOST_TESTS - 1 :] = [_test(f"{len(rest)} more checks", all(test["passed"] for test in rest), score, most)]
    return _distinct(tests)


def _test(name: str, ok: bool, score: int, most: int) -> Fields:
    return {"test-name": name, "passed": ok, "score": score, "max-score": most}


def _rows(result: Result) -> Iterator[tuple[str, bool, int, int]]:
    """Name, whether it passed, score and maximum: of each check that is shown, then of all others together."""
    shown, withheld = listed(result)
    for row in shown:
        prefix = f"{row.report.exercise.name}: " if len(result.entries) > 1 else ""
        yield f"{prefix}{row.verdict.check.title}", all_passed([row]), row.score, row.max_score
    if withheld:
        score, most = sum(row.score for row in withheld), sum(row.max_score for row in withheld)
        yield WITHHELD, all_passed(withheld), score, most


def _distinct(tests: list[Fields]) -> list[Fields]:
    """The rows with names as they must be: no control characters, at most 100 bytes, each once, none empty."""
    taken: set[str] = set()
    for test in tests:
        plain = " ".join("".join(char if char.isprintable() else " " for char in test["test-name"]).split()) or "check"
        name, time = _cut(plain, NAME_BYTES), 1
        while name in taken:
            time += 1
            name = f"{_cut(plain, NAME_BYTES - 8)} ({time})"
        taken.add(name)
        test["test-name"] = name
    return tests


def _cut(text: str, room: int) -> str:
    if len(text.encode()) <= room:
        return text
    return text.encode()[: room - 3].decode("utf-8", "ignore").rstrip() + "…"


# ── the release ──


def release_body(result: Result) -> str:
    """The Markdown of release-body.md, which students read: the rows of result.json and what went wrong."""
    return page(_blocks(result), RELEASE_BYTES)


def _blocks(result: Result) -> Iterator[Block]:
    tests = _tests(result)
    score, most = (sum(test[key] for test in tests) for key in ("score", "max-score"))
    no_mark = result.status == "error"
    yield [f"### {escape(result.title)}: {'no mark' if no_mark else f'{score}/{most}'}"]
    if no_mark:
        yield [NO_MARK]
    cells = [
        (
            "✓" if t["passed"] else "✗",
            escape(t["test-name"]),
            f"{t['score']}/{t['max-score']}" if t["max-score"] and not no_mark else "",
        )
        for t in tests
    ]
    yield table(("", "Check", "Points"), cells, "llr")
    yield from _remarks(result)
    entries = (replace(entry, report=for_student(safe_report(entry.report), entry.scale)) for entry in result.entries)
    yield from sections(replace(result, entries=tuple(entries)))


def _remarks(result: Result) -> Iterator[Block]:
    for entry in result.entries:
        if entry.late:
            name = f"{escape(entry.report.exercise.name)}: " if len(result.entries) > 1 else ""
            yield [f"{name}{escape(entry.late.told)}"]
    verdicts = [verdict for entry in result.entries for verdict in entry.report.verdicts]
    left_out = sum(not verdict.outcome.counted for verdict in verdicts)
    if left_out:
        yield [f"Not counted: {left_out} of {len(verdicts)} checks; what they are worth goes to the others."]
    if any(row.max_score != row.verdict.check.points * row.entry.scale for row in whole_points(result) if row.counted):
        yield [SCALING]
