"""Classroom 50's result.json and release-body.md, held to recorded files and to the contract of its wiki."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt

from grader.grading.report import not_graded
from grader.model import Check, Entry, Late, Outcome, Report, Result, Verdict, alone
from grader.model.errors import UsageError
from grader.render.classroom50 import RELEASE_BYTES, release_body, render
from grader.scoring import total, whole_points
from grader.wording.marks import NO_MARK
from tests.goldens import assert_golden
from tests.reports import KINDS, broken, partial, passed, skipped
from tests.results import commanding, no_mark_for_one_of_two, two_exercises, with_hidden

CONTEXT = {
    "CLASSROOM": "cs-principles",
    "ASSIGNMENT": "train-ddp",
    "USERNAME": "alice",
    "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
    "COMMIT_URL": "https://host/alice/commit/a1b2c3d",
    "RELEASE_URL": "https://host/alice/releases/tag/submit",
    "REVIEW_URL": "https://host/alice/compare/0...a1b2c3d",
    "DATETIME": "2026-06-01T14:32:01Z",
}
WHOLE = {"type": "integer", "minimum": 0}
TEXT = {"type": "string", "minLength": 1}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": [
        *("schema", "classroom", "assignment", "assignment_type", "owner", "submission", "commit", "release"),
        *("review", "datetime", "score", "max-score", "tests"),
    ],
    "properties": {
        "schema": {"const": "classroom50/result/v1"},
        "assignment_type": {"enum": ["individual", "group", "team"]},
        "submission": {"type": "string", "pattern": "^submit/"},
        **dict.fromkeys(["classroom", "assignment", "owner", "commit", "release", "review", "datetime"], TEXT),
        "graded_at": TEXT,
        "score": WHOLE,
        "max-score": WHOLE,
        "tests": {
            "type": "array",
            "maxItems": 100,
            "items": {
                "type": "object",
                "required": ["test-name", "passed", "score", "max-score"],
                "properties": {
                    "test-name": {**TEXT, "pattern": "^[^\\u0000-\\u001f\\u007f]+$"},
                    "passed": {"type": "boolean"},
                    "score": WHOLE,
                    "max-score": WHOLE,
                },
            },
        },
    },
}
"""Written from "Advanced Autograding" of Classroom 50's wiki and the limits of its declarative tests."""

MARKED = [kind for kind in KINDS if kind != "broken"]
RESULTS = {**{kind: lambda kind=kind: alone(KINDS[kind]()) for kind in MARKED}, "two_exercises": two_exercises}
RESULTS |= {"with_hidden": lambda: alone(with_hidden()), "commanding": lambda: alone(commanding())}


def rendered(result: Result | Report, **context: str) -> dict[str, Any]:
    text = render(alone(result) if isinstance(result, Report) else result, {**CONTEXT, **context})
    page = json.loads(text)
    check(page)
    return page


def check(page: dict[str, Any]) -> None:
    """What the contract wants, between fields too."""
    Draft202012Validator(SCHEMA).validate(page)
    names = [test["test-name"] for test in page["tests"]]
    assert len(set(names)) == len(names)
    assert all(len(name.encode()) <= 100 for name in names)
    assert all(test["score"] <= test["max-score"] for test in page["tests"])
    for key in ("score", "max-score"):
        assert page[key] == sum(test[key] for test in page["tests"])
        assert not isinstance(page[key], bool)


def worth(*points: float, outcomes: str = "") -> Report:
    """A report of checks that are worth these points."""
    kinds = {"P": Outcome.PASSED, "F": Outcome.FAILED, "X": Outcome.BROKEN, "S": Outcome.SKIPPED}
    checks = [Check(id=f"c{i}", title=f"Check {i}", points=each) for i, each in enumerate(points)]
    verdicts = [Verdict(check=c, outcome=kinds[o]) for c, o in zip(checks, outcomes or "P" * len(checks), strict=True)]
    exercise = replace(passed().exercise, checks=tuple(checks))
    return replace(passed(), exercise=exercise, verdicts=tuple(verdicts))


@pytest.mark.parametrize("kind", RESULTS)
def test_every_result_keeps_the_contract(kind):
    rendered(RESULTS[kind]())


@pytest.mark.parametrize("kind", [*MARKED, "two_exercises", "with_hidden"])
def test_every_file_is_as_recorded(kind):
    assert_golden(f"{kind}.classroom50.json", render(RESULTS[kind](), CONTEXT))
    assert_golden(f"{kind}.release.md", release_body(RESULTS[kind]()))


# ── scaling ──


def test_whole_points_stay_as_they_are():
    page = rendered(worth(20, 40, 5, outcomes="PFP"))
    assert [(t["score"], t["max-score"]) for t in page["tests"]] == [(20, 20), (0, 40), (5, 5)]


def test_fractions_are_shared_out_so_that_the_sum_is_exact():
    page = rendered(partial())
    assert [test["max-score"] for test in page["tests"]] == [20, 40, 20, 13, 7]
    assert (page["score"], page["max-score"]) == (40, 100)


def test_small_fractional_totals_become_a_hundred():
    assert [test["max-score"] for test in rendered(worth(0.25, 0.25, 0.5))["tests"]] == [25, 25, 50]


@given(
    st.lists(st.tuples(st.floats(0, 500), st.sampled_from("PFS")), min_size=1, max_size=120),
    st.floats(0, 1),
    st.floats(0.01, 1000),
)
def test_rows_add_up_and_a_full_mark_is_full(checks, kept, weight):
    report = worth(*(points for points, _ in checks), outcomes="".join(outcome for _, outcome in checks))
    result = Result(title="x", entries=(Entry(report=report, weight=weight, late=Late(kept=kept, told="late")),))
    page = rendered(result)
    assert page["max-score"] == total(result)
    in_time = rendered(replace(result, entries=(replace(result.entries[0], late=None),)))
    for row in whole_points(replace(result, entries=(replace(result.entries[0], late=None),))):
        assert row.score == (row.max_score if row.verdict.outcome is Outcome.PASSED else 0)
    assert page["score"] == int(in_time["score"] * kept + 0.5)


def test_late_points_are_shared_by_the_exercise_alone():
    page = rendered(two_exercises())
    assert page["max-score"] == 100
    assert (page["score"], [t["score"] for t in page["tests"]][5:]) == (13, [7, 0, 0, 4, 2])


# ── rows ──


def test_a_skipped_check_has_no_row_and_leaves_its_points_to_the_others():
    page = rendered(skipped())
    assert [test["passed"] for test in page["tests"]] == [True, True, True, True]
    assert (page["score"], page["max-score"]) == (100, 100)


def test_a_result_in_which_nothing_counts_is_no_pass():
    page = rendered(worth(1, 2, outcomes="SS"))
    assert [test["passed"] for test in page["tests"]] == [False, False]
    assert page["max-score"] == 0


def test_a_release_without_a_mark_is_as_recorded():
    assert_golden("broken.release.md", release_body(alone(broken())))


@pytest.mark.parametrize("result", [alone(broken()), no_mark_for_one_of_two()], ids=["alone", "one of two"])
def test_where_a_check_could_not_be_judged_there_is_no_file_and_the_release_says_so(result):
    """The contract knows no result without a score, and any score would be taken for a mark."""
    assert render(result, CONTEXT) == ""
    body = release_body(result)
    assert NO_MARK in body and "no mark" in body.splitlines()[0] and not re.search(r"\d/\d", body)


def test_hidden_checks_are_one_row_that_tells_their_sum():
    page = rendered(with_hidden())
    assert page["tests"][-1]["test-name"] == "Checks that are not shown"
    assert (page["tests"][-1]["passed"], page["tests"][-1]["score"], page["tests"][-1]["max-score"]) == (False, 10, 30)
    for text in (json.dumps(page), release_body(alone(with_hidden()))):
        assert not re.search("secret|later", text, re.IGNORECASE)


def test_more_than_a_hundred_checks_end_in_one_row():
    page = rendered(worth(*[1] * 130, outcomes="P" * 120 + "F" * 10))
    assert len(page["tests"]) == 100
    assert page["tests"][-1] == {"test-name": "31 more checks", "passed": False, "score": 21, "max-score": 31}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), min_size=2, max_size=8))
def test_any_titles_become_names_that_are_allowed(titles):
    report = worth(*[1.0] * len(titles))
    verdicts = [replace(v, check=replace(v.check, title=t)) for v, t in zip(report.verdicts, titles, strict=True)]
    rendered(replace(report, verdicts=tuple(verdicts)))


# ── context ──


@pytest.mark.parametrize("name", ["CLASSROOM", "ASSIGNMENT", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL"])
def test_what_is_missing_is_named_with_who_sets_it(name):
    with pytest.raises(UsageError, match=f"^{name} is not set: Classroom 50's autograde-runner workflow sets it"):
        render(alone(passed()), {key: value for key, value in CONTEXT.items() if key != name})


def test_the_owner_is_the_user_name_where_there_is_no_owner():
    assert rendered(passed())["owner"] == "alice"
    assert rendered(passed(), OWNER="bob")["owner"] == "bob"
    with pytest.raises(UsageError, match="OWNER or USERNAME is not set"):
        render(alone(passed()), {**CONTEXT, "USERNAME": ""})


@pytest.mark.parametrize("when", ["", "2026-06-01", "2026-06-01T14:32:01+02:00", "2026-06-01T24:00:00Z", "yesterday"])
def test_a_time_that_is_not_in_utc_is_refused(when):
    with pytest.raises(UsageError, match="DATETIME must be a time in UTC"):
        render(alone(passed()), {**CONTEXT, "DATETIME": when})


def test_a_tag_that_is_no_submission_is_refused():
    with pytest.raises(UsageError, match="SUBMISSION_TAG must begin with submit/"):
        render(alone(passed()), {**CONTEXT, "SUBMISSION_TAG": "v1"})


def test_the_review_falls_back_to_the_commit():
    assert rendered(passed(), REVIEW_URL="")["review"] == CONTEXT["COMMIT_URL"]
    assert "graded_at" not in rendered(passed())
    assert rendered(passed(), GRADED_AT="2026-06-02T00:00:00Z")["graded_at"] == "2026-06-02T00:00:00Z"


# ── the release ──


def test_the_body_shows_the_rows_of_the_result():
    body = release_body(alone(partial()))
    assert body.startswith("### Train with DistributedDataParallel: 40/100\n")
    assert "| ✓ | Rank 0 alone writes the checkpoint | 13/13 |" in body
    assert "Points are whole here" in body


def test_nothing_that_a_student_writes_acts_in_the_body():
    body = release_body(alone(commanding()))
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(body)
    inline = [child for token in tokens for child in token.children or []]
    assert {token.type for token in inline} <= {"text", "code_inline", "softbreak"}
    assert not any(token.type in ("html_block", "code_block") for token in tokens)
    assert not any("owned" in child.content for child in inline if child.type == "text")


def test_the_body_fits_into_a_release():
    report = partial()
    long = replace(report.verdicts[1].findings[0], actual="\U0001f600" * 600)
    many = tuple(
        replace(v, outcome=Outcome.FAILED, findings=(replace(long, line=i),))
        for i, v in enumerate(report.verdicts * 40)
    )
    body = release_body(alone(replace(report, verdicts=many)))
    assert len(body.encode()) <= RELEASE_BYTES
    assert body.rstrip().endswith("grown too long.*")


def test_a_result_without_exercises_and_one_that_was_not_graded_render_too():
    rendered(Result(title="", entries=()))
    gone = not_graded(passed().exercise, passed().submission, "no runner", seed=1, device="cpu")
    assert render(alone(gone), CONTEXT) == "" and "no runner" in release_body(alone(gone))
