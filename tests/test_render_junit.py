"""JUnit XML, held to Jenkins' schema, to recorded files and to what CI servers make of it.

tests/data/junit-10.xsd is the schema of Jenkins' xUnit plugin as pytest's source ships it; its licence (MIT) is in it.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st

from grader.model import Finding, Outcome, Result, alone
from grader.render.junit import render
from tests.goldens import assert_golden
from tests.reports import KINDS, broken, deadlock, hostile, partial, passed, stub, submission
from tests.results import commanding, two_exercises, with_hidden

SCHEMA = xmlschema.XMLSchema10(Path(__file__).parent / "data" / "junit-10.xsd")
NOT_XML = re.compile("[^\t\n\r\x20-\x7e\x80-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
RESULTS = {**{kind: lambda kind=kind: alone(KINDS[kind]()) for kind in KINDS}, "two_exercises": two_exercises}
RESULTS |= {"with_hidden": lambda: alone(with_hidden()), "commanding": lambda: alone(commanding())}


def cases_of(result: Result, **options) -> dict[tuple[str, str], ET.Element]:
    root = ET.fromstring(render(result, **options).encode())
    found = [((case.get("classname"), case.get("name")), case) for case in root.iter("testcase")]
    assert len(dict(found)) == len(found), "a class name and name stand twice"
    return dict(found)


def outcome(case: ET.Element) -> str:
    return next((f"{child.tag} {child.get('type')}" for child in case if child.tag != "system-out"), "passed")


@pytest.mark.parametrize("kind", RESULTS)
def test_every_file_is_valid_and_names_no_test_twice(kind):
    for withheld in (False, True):
        SCHEMA.validate(render(RESULTS[kind](), withheld=withheld))
        cases_of(RESULTS[kind](), withheld=withheld)


@pytest.mark.parametrize("kind", [*KINDS, "two_exercises"])
def test_every_file_is_as_recorded(kind):
    assert_golden(f"{kind}.junit.xml", render(RESULTS[kind]()))


@pytest.mark.parametrize("kind", RESULTS)
def test_the_counts_are_those_of_the_tests(kind):
    root = ET.fromstring(render(RESULTS[kind]()).encode())
    for element in (root, *root.iter("testsuite")):
        cases = list(element.iter("testcase"))
        assert element.get("tests") == str(len(cases))
        for name in ("failures", "errors"):
            assert element.get(name) == str(sum(case.find(name[:-1]) is not None for case in cases))


def test_one_test_a_check_and_one_for_each_rank_of_each_run():
    names = list(cases_of(alone(deadlock())))
    checks = ["runs", "same_as_one_process", "reshuffles", "saves_once", "leaves"]
    places = ["world_size=1, rank=0", "world_size=3, rank=0", "world_size=3, rank=1", "world_size=3, rank=2"]
    assert names == [
        *(("ranklings.03_train_ddp", check) for check in checks),
        *(("ranklings.03_train_ddp.ranks", f"equal_shards[{place}]") for place in places),
    ]


def test_names_do_not_depend_on_what_happened():
    report = passed()
    failing = replace(report, verdicts=partial().verdicts)
    assert list(cases_of(alone(report))) == list(cases_of(alone(failing)))


@pytest.mark.parametrize("letter, expected", [("P", "passed"), ("S", "skipped skipped"), ("X", "error broken")])
def test_skipped_is_never_passed_and_broken_is_an_error(letter, expected):
    cases = cases_of(alone(broken()))
    outcomes = dict(zip(["runs", "same_as_one_process", "reshuffles", "saves_once", "leaves"], "PPXSP", strict=True))
    for check, came_to in outcomes.items():
        if came_to == letter:
            assert outcome(cases["ranklings.03_train_ddp", check]) == expected


def test_a_blocked_check_is_a_failure_of_its_own_type():
    case = cases_of(alone(deadlock()))["ranklings.03_train_ddp", "reshuffles"]
    assert outcome(case) == "failure blocked"
    assert "Needs: Every rank finishes" in case.find("failure").get("message")


def test_only_the_ranks_that_findings_name_fail():
    cases = {name: outcome(case) for (_, name), case in cases_of(alone(partial())).items() if "rank=" in name}
    assert {name for name, came_to in cases.items() if came_to == "passed"} == {
        "equal_shards[world_size=1, rank=0]",
        "equal_shards[world_size=2, rank=0]",
    }
    assert cases["equal_shards[world_size=2, rank=1]"] == "failure finished"


def test_a_rank_carries_what_it_printed_and_how_it_ended():
    case = cases_of(alone(deadlock()))["ranklings.03_train_ddp.ranks", "equal_shards[world_size=3, rank=1]"]
    assert case.find("system-out").text == "step 0\nwaiting for the others"
    assert case.find("failure").text.endswith("This rank: waits in barrier")
    assert case.find("failure").text.count("Meanwhile") == 1


def test_a_deadlock_is_a_table_with_its_lines():
    text = cases_of(alone(deadlock()))["ranklings.03_train_ddp", "runs"].find("failure").text
    assert "  0     all_reduce    38\n  1     barrier       42\n" in text


def test_points_visibility_and_lateness_are_properties_of_the_suite():
    root = ET.fromstring(render(two_exercises()).encode())
    suites = {suite.get("name"): suite for suite in root.iter("testsuite")}
    assert list(suites) == ["03_train_ddp", "03_train_ddp.ranks", "04_digits", "04_digits.ranks"]
    facts = {fact.get("name"): fact.get("value") for fact in suites["04_digits"].iter("property")}
    assert facts["late"] == "Handed in 2 days late: 20 % off." and facts["late.kept"] == "0.8"
    assert (facts["score"], facts["max_score"]) == ("12.8", "40")
    assert (facts["check.runs.points"], facts["check.runs.visibility"]) == ("8", "visible")


def test_hidden_checks_and_their_runs_are_left_out_unless_asked_for():
    shown = render(alone(with_hidden()))
    assert "SECRET" not in shown and "secret" not in shown and "LATER" not in shown
    assert '<property name="withheld.checks" value="2" />' in shown
    whole = render(alone(with_hidden()), withheld=True)
    assert "SECRET value" in whole and "SECRET output" in whole and "secret[world_size=4, rank=3]" in whole
    assert '<property name="check.secret_sizes.visibility" value="hidden" />' in whole


def test_one_exercise_twice_keeps_its_names_apart():
    result = two_exercises()
    assert len(cases_of(replace(result, entries=(result.entries[0], result.entries[0])))) == 18


@pytest.mark.parametrize("make", [hostile, commanding])
def test_hostile_text_is_text_and_short(make):
    text = render(alone(make()))
    assert all(char.isprintable() or char in "\n" for char in text.replace("\t", ""))
    assert not re.search(r"^\s*(::\w|##\[)", text, re.MULTILINE)
    assert len(text) < 60_000
    text.encode("utf-8")
    tags = {element.tag for element in ET.fromstring(text.encode()).iter()}
    assert tags <= {"testsuites", "testsuite", "properties", "property", "testcase", "failure", "system-out"}


def test_times_that_are_no_numbers_are_zero():
    root = ET.fromstring(render(alone(replace(passed(), seconds=float("nan")))).encode())
    assert root.get("time") == "0.000"


@given(st.text(st.characters(), max_size=200))
def test_any_text_comes_back_from_a_parser_as_it_is_shown(text):
    """An author's title is not made safe first; it reaches the file as it is but for what XML cannot hold."""
    report = stub()
    checks = (replace(report.verdicts[0].check, title=text), *report.exercise.checks[1:])
    verdicts = (replace(report.verdicts[0], check=checks[0], outcome=Outcome.FAILED, findings=()),)
    root = ET.fromstring(render(alone(replace(report, verdicts=verdicts))).encode())
    read = root.find(".//property[@name='check.runs.title']").get("value")
    assert read == NOT_XML.sub(lambda found: f"#x{ord(found[0]):02X}", text)


@given(st.text(st.characters(), max_size=200), st.text(st.characters(), max_size=80))
def test_whatever_a_student_writes_the_file_stays_valid(text, name):
    finding = Finding(subject=text, expected=text, actual=name, ranks=(0,), line=1, case="equal_shards[2]")
    report = replace(stub(), submission=submission(f"x/{name}" if "\0" not in name else "x"))
    verdicts = (replace(report.verdicts[0], findings=(finding,)), *report.verdicts[1:])
    SCHEMA.validate(render(alone(replace(report, verdicts=verdicts))))
