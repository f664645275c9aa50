"""The JSON renderer, held to its schema and to recorded pages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from grader.render import json as renderer
from tests.goldens import assert_golden
from tests.reports import KINDS, broken, deadlock, hostile, partial, passed, skipped, syntax_error
from tests.results import no_mark_for_one_of_two

SCHEMA = json.loads((Path(__file__).parent.parent / "docs" / "report.schema.json").read_text(encoding="utf-8"))


def rendered(report: Any) -> dict[str, Any]:
    return json.loads(renderer.render(report))


def objects(schema: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every object schema and where it stands."""
    if not isinstance(schema, dict):
        return []
    found = [(path, schema)] if schema.get("type") == "object" else []
    return found + [pair for key, value in schema.items() for pair in objects(value, f"{path}/{key}")]


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path, schema", objects(SCHEMA))
def test_the_schema_is_strict_and_describes_every_field(path, schema):
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])
    assert all(field.get("description") for field in schema["properties"].values())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_report_keeps_to_the_schema(kind):
    Draft202012Validator(SCHEMA).validate(rendered(KINDS[kind]()))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_report_is_as_recorded(kind):
    assert_golden(f"{kind}.json", renderer.render(KINDS[kind]()))


def test_keys_stand_in_the_order_of_the_schema():
    assert list(rendered(partial())) == list(SCHEMA["properties"])
    assert list(rendered(partial())["checks"][0]) == list(SCHEMA["$defs"]["check"]["properties"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_totals_are_the_sums_of_the_checks(kind):
    page = rendered(KINDS[kind]())
    assert page["score"] == sum(check["score"] for check in page["checks"])
    assert page["max_score"] == sum(check["max_score"] for check in page["checks"])


def test_skipped_checks_leave_the_total_but_keep_their_worth():
    page = rendered(skipped())
    assert (page["status"], page["score"], page["max_score"], page["mark"]) == ("passed", 87.5, 87.5, 87.5)
    assert [(c["max_score"], c["points"]) for c in page["checks"][2:4]] == [(20.0, 20.0), (0.0, 12.5)]


def test_a_broken_check_leaves_no_mark_and_its_points_stay_in_the_total():
    """So that what the others earned does not look like full marks."""
    page = rendered(broken())
    assert (page["status"], page["score"], page["max_score"], page["mark"]) == ("error", 67.5, 87.5, None)
    whole = json.loads(renderer.render_result(no_mark_for_one_of_two()))
    assert (whole["status"], whole["mark"]) == ("error", None)
    assert [entry["mark"] for entry in whole["entries"]] == [60, None]


def test_a_message_is_built_from_the_findings():
    message = rendered(partial())["checks"][1]["message"]
    assert message.splitlines()[0].startswith("parameter layer.weight after step 1 on ranks 0, 1, 2: expected the same")
    assert message.splitlines()[1] == "the returned model on ranks 0, 1: is a DDP wrapper"


def test_a_blocked_check_names_what_it_needs():
    assert rendered(deadlock())["checks"][1]["message"] == "needs: Every rank finishes"


def test_a_deadlock_says_what_every_rank_waits_in():
    run = rendered(deadlock())["runs"][1]
    assert run["diagnosis"]["kind"] == "deadlocked"
    assert [(r["at"], r["detail"]) for r in run["ranks"]] == [
        (38, "waits in all_reduce"),
        (42, "waits in barrier"),
        (38, "waits in all_reduce"),
    ]


def test_a_file_that_does_not_compile_is_the_submissions_problem():
    assert rendered(syntax_error())["submission"]["problem"]["line"] == 31
    assert rendered(passed())["submission"]["problem"] is None


def test_hostile_text_is_harmless_and_short():
    text = renderer.render(hostile())
    assert all(char.isprintable() or char == "\n" for char in text)
    assert len(text) < 20_000
    text.encode("utf-8")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_never_appear(seconds):
    assert rendered(replace(passed(), seconds=seconds))["seconds"] == 0.0


def test_the_text_ends_with_a_newline_and_is_the_same_each_time():
    assert renderer.render(partial()).endswith("}\n")
    assert renderer.render(partial()) == renderer.render(partial())


def test_letters_of_other_languages_stay_readable():
    assert "Ärger, 失敗" in renderer.render(replace(passed(), notes=("Ärger, 失敗",)))
