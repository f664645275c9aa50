"""Gradescope's results.json, held to recorded files and to what the platform's specification says of each field."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from grader.grading.report import not_graded
from grader.model import Entry, Finding, Late, Outcome, Report, Result, alone
from grader.render.gradescope import render
from tests.goldens import assert_golden
from tests.reports import KINDS, broken, deadlock, hostile, partial, passed, skipped, stub
from tests.results import commanding, no_mark_for_one_of_two, two_exercises, with_hidden

ANSI = re.compile(r"\x1b\[[0-9;]*m")
VISIBILITY = {"enum": ["visible", "hidden", "after_due_date", "after_published"]}
FORMAT = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["output", "tests", "stdout_visibility"],
    "properties": {
        "score": {"type": "number", "minimum": 0},
        "execution_time": {"type": "number", "minimum": 0},
        "output": {"type": "string"},
        "output_format": FORMAT,
        "test_output_format": FORMAT,
        "test_name_format": FORMAT,
        "stdout_visibility": VISIBILITY,
        "visibility": VISIBILITY,
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "number", "output", "tags", "visibility", "extra_data"],
                "properties": {
                    "score": {"type": "number", "minimum": 0},
                    "max_score": {"type": "number", "minimum": 0},
                    "status": {"enum": ["passed", "failed"]},
                    "name": {"type": "string"},
                    "name_format": FORMAT,
                    "number": {"type": "string"},
                    "output": {"type": "string"},
                    "output_format": FORMAT,
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "visibility": VISIBILITY,
                    "extra_data": {"type": "object"},
                },
            },
        },
    },
}
"""The fields of "Autograder Specifications" (Gradescope), those of a leaderboard aside."""

RESULTS = {**{kind: lambda kind=kind: alone(KINDS[kind]()) for kind in KINDS}, "two_exercises": two_exercises}
RESULTS |= {"with_hidden": lambda: alone(with_hidden()), "commanding": lambda: alone(commanding())}


def rendered(result: Result | Report) -> dict[str, Any]:
    return json.loads(render(alone(result) if isinstance(result, Report) else result))


@pytest.mark.parametrize("kind", RESULTS)
def test_every_file_keeps_to_the_specification(kind):
    Draft202012Validator(SCHEMA).validate(rendered(RESULTS[kind]()))


@pytest.mark.parametrize("kind", [*KINDS, "two_exercises", "with_hidden"])
def test_every_file_is_as_recorded(kind):
    assert_golden(f"{kind}.gradescope.json", render(RESULTS[kind]()))


def test_the_score_overrides_and_is_the_sum_of_the_tests():
    page = rendered(partial())
    assert page["score"] == sum(test["score"] for test in page["tests"]) == 40
    assert [test["max_score"] for test in page["tests"]] == [20, 40, 20, 12.5, 7.5]


def test_skipped_checks_lose_nobody_a_point():
    page = rendered(skipped())
    assert page["score"] == 100
    counted = [test for test in page["tests"] if "score" in test]
    assert sum(test["max_score"] for test in counted) == pytest.approx(100, abs=1e-3)
    assert [test["tags"][1] for test in page["tests"] if "score" not in test] == ["skipped"]
    assert all("status" not in test for test in page["tests"] if "score" not in test)


def gone() -> Report:
    """An exercise that could not be graded at all."""
    return not_graded(passed().exercise, passed().submission, "no runner", seed=1, device="cpu")


def hidden_and_broken() -> Report:
    """The check that students do not see could not be judged."""
    made = with_hidden()
    verdicts = [replace(verdict, outcome=Outcome.PASSED, findings=()) for verdict in made.verdicts]
    verdicts[5] = replace(verdicts[5], outcome=Outcome.BROKEN)
    return replace(made, verdicts=tuple(verdicts))


UNMARKED = {
    "one check": alone(broken()),
    "all": alone(gone()),
    "a hidden check": alone(hidden_and_broken()),
    "one exercise": Result(title="Two", entries=(Entry(report=partial(), weight=60), Entry(report=gone(), weight=40))),
    "one check of one exercise": no_mark_for_one_of_two(),
}


@pytest.mark.parametrize("result", UNMARKED.values(), ids=UNMARKED)
def test_where_a_check_could_not_be_judged_no_score_is_written(result):
    """Neither at the top nor of a test, so that the platform keeps none; the output says who will grade again."""
    page = rendered(result)
    Draft202012Validator(SCHEMA).validate(page)
    assert not {"score"} & page.keys()
    assert not any({"score", "max_score", "status"} & test.keys() for test in page["tests"])
    assert "No mark" in page["output"] and "staff will grade this again" in page["output"]
    assert "points in the checks shown" not in page["output"]


def test_there_is_no_score_where_everything_was_skipped():
    page = rendered(replace(passed(), verdicts=tuple(replace(v, outcome=Outcome.SKIPPED) for v in passed().verdicts)))
    assert "score" not in page and not any("score" in test for test in page["tests"])
    assert "No check could be graded" in page["output"]


def test_what_is_lost_by_lateness_is_said_and_taken_off_the_score_alone():
    page = rendered(two_exercises())
    assert page["score"] == 12.8
    assert sum(test["score"] for test in page["tests"]) == 16
    assert "Handed in 2 days late: 20 % off." in page["output"]


def test_each_test_has_the_visibility_of_its_check():
    page = rendered(with_hidden())
    seen = {test["extra_data"]["check"]: test["visibility"] for test in page["tests"]}
    assert (seen["runs"], seen["secret_sizes"], seen["later"]) == ("visible", "hidden", "after_due_date")
    assert "visibility" not in page
    assert page["stdout_visibility"] == "hidden"


def test_nothing_of_hidden_checks_stands_in_a_visible_place():
    page = rendered(with_hidden())
    secret = next(test for test in page["tests"] if test["visibility"] == "hidden")
    assert "SECRET value" in secret["output"]
    page["tests"] = [test for test in page["tests"] if test["visibility"] == "visible"]
    del page["score"]
    for word in ("SECRET", "secret", "LATER", "later"):
        assert word not in json.dumps(page)
    assert "40 of 100 points in the checks shown" in page["output"]
    assert "2 checks of your course are judged too and not shown here" in page["output"]


def test_numbers_and_names_tell_the_exercise_where_there_are_several():
    page = rendered(two_exercises())
    assert [test["number"] for test in page["tests"]] == [f"{e}.{c}" for e in (1, 2) for c in range(1, 6)]
    assert page["tests"][5]["name"] == "04_digits: Every rank finishes"
    assert [test["number"] for test in rendered(passed())["tests"]] == ["1", "2", "3", "4", "5"]


def test_a_deadlock_is_a_table_in_fixed_width():
    page = rendered(deadlock())
    assert "  0     all_reduce    38\n  1     barrier       42\n" in page["tests"][0]["output"]
    assert page["tests"][0]["output_format"] == page["test_output_format"] == "ansi"


def test_a_caret_stays_under_its_column():
    lines = ANSI.sub("", rendered(KINDS["syntax_error"]())["output"]).splitlines()
    caret = next(index for index, line in enumerate(lines) if line.strip() == "^")
    assert lines[caret - 1][lines[caret].index("^") :].startswith("nesterov")


@pytest.mark.parametrize("make", [hostile, commanding])
def test_only_our_own_colours_act(make):
    page = rendered(make())
    for text in (page["output"], *(test["output"] for test in page["tests"])):
        assert all(char.isprintable() or char in "\n\t" for char in ANSI.sub("", text))
        assert set(ANSI.findall(text)) <= {f"\x1b[{code}m" for code in ("0", "1", "2", "31", "32", "33", "36")}
        assert not re.search(r"^(::\w|##\[)", text, re.MULTILINE)


def test_the_file_stays_far_under_a_megabyte():
    """Findings of the largest size in a hundred checks, in letters of four bytes, and ranks that print a lot."""
    report = stub()
    wide = Finding(subject="\U0001f600" * 600, expected="\U0001f600" * 600, actual="\\\n" * 600, ranks=(0,))
    many = tuple(replace(wide, line=line) for line in range(1, 9))
    verdicts = tuple(replace(v, outcome=Outcome.FAILED, findings=many) for v in report.verdicts * 40)
    run = replace(
        report.runs[0],
        ranks=tuple(replace(report.runs[0].ranks[0], rank=r, output=f"{r}" + "\U0001f600\n" * 4000) for r in range(32)),
    )
    text = render(alone(replace(report, verdicts=verdicts, runs=(run,))))
    assert len(text.encode()) < 950_000
    assert "… (cut: " in text
    Draft202012Validator(SCHEMA).validate(json.loads(text))


@pytest.mark.parametrize("kept", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_never_appear(kept):
    late = Late(kept=kept, told="late")
    text = render(Result(title="x", entries=(Entry(report=replace(passed(), seconds=kept), weight=100, late=late),)))
    assert "NaN" not in text and "Infinity" not in text


@given(st.text(st.characters(), max_size=300))
def test_whatever_a_student_writes_the_file_is_json_and_only_colours_act(text):
    report = stub()
    finding = Finding(subject=text, expected=text, actual=text, line=1)
    page = rendered(replace(report, verdicts=(replace(report.verdicts[0], findings=(finding,)), *report.verdicts[1:])))
    assert all(char.isprintable() or char in "\n\t" for char in ANSI.sub("", page["tests"][0]["output"]))
