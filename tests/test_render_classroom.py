"""What GitHub Classroom read: two notices, or the result of a test runner for its reporter."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from grader.model import Report, Result, alone
from grader.render.classroom import output, render
from grader.report import not_graded
from tests.goldens import assert_golden
from tests.reports import KINDS, broken, commanding, hostile, partial, passed, stub, two_exercises, with_hidden

RESULTS = {**{kind: lambda kind=kind: alone(KINDS[kind]()) for kind in KINDS}, "two_exercises": two_exercises}
RESULTS |= {"with_hidden": lambda: alone(with_hidden()), "commanding": lambda: alone(commanding())}
FIELDS = ["name", "status", "score", "message", "test_code", "filename", "line_no", "execution_time"]


def decoded(result: Result | Report) -> dict[str, Any]:
    text = output(alone(result) if isinstance(result, Report) else result)
    assert re.fullmatch(r"[A-Za-z0-9+/]+=*", text)
    return json.loads(base64.b64decode(text, validate=True))


@pytest.mark.parametrize("kind", [*KINDS, "two_exercises", "with_hidden"])
def test_every_result_is_as_recorded(kind):
    runner = json.dumps(decoded(RESULTS[kind]()), ensure_ascii=False, indent=2)
    assert_golden(f"{kind}.classroom.txt", f"{render(RESULTS[kind]())}\n{runner}\n")


@pytest.mark.parametrize("kind", RESULTS)
def test_every_result_has_what_the_reporter_reads(kind):
    page = decoded(RESULTS[kind]())
    assert page["version"] == 1
    assert page["status"] in ("pass", "fail", "error")
    assert all(list(test) == FIELDS for test in page["tests"])
    assert {test["status"] for test in page["tests"]} <= {"pass", "fail", "error"}
    assert all(isinstance(test["score"], int) for test in page["tests"])
    assert sum(test["score"] for test in page["tests"]) <= page["max_score"]


def test_the_notices_are_those_of_the_reporter():
    assert render(alone(partial())) == (
        "::notice title=Autograding complete::Points 40/100\n"
        '::notice title=Autograding report::{"totalPoints":40,"maxPoints":100}\n'
    )


def test_the_notices_and_the_runner_tell_the_same_points():
    page = decoded(two_exercises())
    points = sum(test["score"] for test in page["tests"])
    assert f"Points {points}/{page['max_score']}\n" in render(two_exercises())


def test_there_are_no_notices_where_nothing_counts():
    gone = not_graded(passed().exercise, passed().submission, "no runner", seed=1, device="cpu")
    assert render(alone(gone)) == ""
    assert decoded(gone)["status"] == "error"


def test_a_broken_check_is_an_error_and_a_skipped_one_is_left_out():
    page = decoded(broken())
    assert page["status"] == "error"
    assert [test["status"] for test in page["tests"]] == ["pass", "pass", "error", "pass"]


def test_a_failed_test_names_its_line_and_why():
    test = decoded(stub())["tests"][0]
    assert (test["status"], test["line_no"], test["filename"]) == ("fail", 25, "train_ddp.py")
    assert "NotImplementedError was raised" in test["message"]


def test_hidden_checks_are_one_test_without_a_word():
    text = json.dumps(decoded(with_hidden()))
    assert not re.search("secret|later", text, re.IGNORECASE)
    assert decoded(with_hidden())["tests"][-1]["name"] == "Checks that are not shown"


@pytest.mark.parametrize("make", [hostile, commanding])
def test_no_line_that_the_reporter_prints_is_a_command(make):
    page = decoded(make())
    printed = [text for test in page["tests"] for text in (test["name"], test["message"] or "", test["filename"])]
    for text in printed:
        assert not re.search(r"^\s*(##\[|##vso\[|::(error|set-output|stop-commands))", text, re.MULTILINE)
        assert all(char.isprintable() or char in "\n\t" for char in text)
    assert len(output(alone(make()))) < 200_000
