"""Files that commands write: reports, marks, saved runs. No rank is started."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from grader import catalog
from grader.model.errors import RunError
from grader.records import recording
from tests.commands import call, refused


def test_json_is_written_whole_with_nothing_beside_it(fake, root):
    (root / "report.json").write_text("older")
    assert call("grade", "1", "--json", "report.json").exit_code == 0
    assert json.loads((root / "report.json").read_text())["exercise"] == "01_add"
    assert not list(root.glob(".*.partial"))


ASSIGNMENT = """\
title: Homework 1
due: 2026-10-12T22:00:00Z
late: {percent_per_day: 10}
exercises: {01_add: {weight: 30}, 02_ring: {weight: 10}}
"""


def test_several_exercises_are_one_result(fake, root):
    assert call("grade", "1", "2", "--json", "r.json").exit_code == 0
    written = json.loads((root / "r.json").read_text())
    assert written["schema"] == "ranklings/result/1"
    assert [entry["report"]["exercise"] for entry in written["entries"]] == ["01_add", "02_ring"]
    assert (written["score"], written["max_score"]) == (200, 200)


def test_an_assignment_weighs_its_exercises_and_what_came_late(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    result = call("grade", "--assignment", "a.yaml", "--submitted-at", "2026-10-13T10:00:00+00:00", "--json", "r.json")
    assert result.exit_code == 0
    assert "Homework 1" in result.stdout and "Total" in result.stdout and "36/40" in result.stdout
    assert "Handed in 12 hours late: 10 % of the points are taken off." in result.stdout
    assert json.loads((root / "r.json").read_text())["score"] == pytest.approx(36)


def test_a_file_that_an_assignment_misses_is_no_error_of_the_command(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    (root / "handed_in").mkdir()
    result = call("grade", "--assignment", "a.yaml", "--submission", "handed_in", "--json", "r.json")
    first = json.loads((root / "r.json").read_text())["entries"][0]["report"]
    assert "add.py was not handed in" in result.stdout
    assert first["submission"]["problem"]["subject"] == "add.py was not handed in"


def test_the_folder_of_an_assignment_has_to_be_there(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    assert "There is no folder none" in refused(call("grade", "--assignment", "a.yaml", "--submission", "none"))


def test_an_assignment_with_an_exercise_that_fails_for_our_fault_has_no_mark(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    fake.errors["01_add"] = RunError("No scratch folder could be made.")
    result = call("grade", "--assignment", "a.yaml", "--json", "r.json")
    written = json.loads((root / "r.json").read_text())
    assert result.exit_code == 3
    assert (written["status"], written["mark"], written["max_score"]) == ("error", None, 40)
    assert [entry["mark"] for entry in written["entries"]] == [None, 10]
    assert "No mark: a check could not be judged" in " ".join(result.stdout.split())


def test_what_a_killed_grade_leaves_names_the_exercises_that_it_did_not_reach(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    fake.errors["02_ring"] = KeyboardInterrupt()
    assert call("grade", "--assignment", "a.yaml", "--json", "r.json").exit_code == 130
    first, second = json.loads((root / "r.json").read_text())["entries"]
    assert (first["mark"], second["mark"], second["report"]["status"]) == (30, None, "error")
    assert "stopped before it came to this exercise" in second["report"]["checks"][0]["message"]


def test_exercises_share_the_time_of_an_assignment(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    call("grade", "--assignment", "a.yaml", "--deadline", "100")
    first, second = (asked.deadline for asked in fake.asked)
    assert 45 < first <= 50 and 90 < second <= 100


def test_marks_of_several_students_become_one_file(fake, root):
    for name in ("ada", "alan"):
        call("grade", "1", "--json", f"{name}.json")
    (root / "roster.csv").write_text("login,name\nada,Ada\ngrace,Grace\n")
    result = call("gradebook", "ada.json", "alan.json", "--roster", "roster.csv", "--out", "marks.csv")
    assert result.exit_code == 0
    assert "No student of the roster is called alan." in result.stderr and "No report of" in result.stderr
    assert "marks.csv holds the marks of 2 people." in result.stdout  # a plain file has alan, too
    assert "ada,01_add,60,40,100" in (root / "marks.csv").read_text().replace(".00", "").replace(".0", "")


@pytest.mark.parametrize("kind", ["plain", "moodle"])
def test_a_roster_that_knows_nobody_is_refused(fake, root, kind):
    """It is another course's, and what there is of a file stays."""
    call("grade", "1", "--json", "ada.json")
    (root / "roster.csv").write_text("username,name\ngrace,Grace\n")
    (root / "marks.csv").write_text("as before")
    told = refused(call("gradebook", "ada.json", "--format", kind, "--roster", "roster.csv", "--out", "marks.csv"))
    assert "roster.csv knows none of those who handed in, such as ada;" in told
    assert (root / "marks.csv").read_text() == "as before"


def test_people_are_counted_and_not_their_exercises(fake, root):
    call("grade", "1", "2", "--json", "ada.json")
    assert "holds the marks of 1 person." in call("gradebook", "ada.json", "--out", "marks.csv").stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("r.json", "--format", "canvas"), "name it with --roster"),
        (("r.json", "--roster", "absent.csv"), "absent.csv cannot be read"),
        (("absent.json",), "absent.json cannot be read"),
        (("r.json", "--out", "absent/m.csv"), "absent/m.csv cannot be written"),
    ],
)
def test_a_gradebook_that_cannot_be_made_is_told(fake, root, words, told):
    call("grade", "1", "--json", "r.json")
    assert told in refused(call("gradebook", *(words if "--out" in words else (*words, "--out", "m.csv"))))


def test_render_makes_the_page_again(fake, root):
    page = call("grade", "1", "--json", "r.json").stdout
    assert call("render", "r.json").stdout == page


def test_render_of_several_ends_with_the_sum(fake, root):
    call("grade", "1", "2", "--json", "r.json")
    page = call("render", "r.json").stdout
    assert page.count("It adds") == 2 and "200/200" in page


def test_render_of_no_report_is_refused(fake, root):
    (root / "r.json").write_text("{}")
    assert "r.json is no report of `grade --json`: it lacks 'schema'" in refused(call("render", "r.json"))


def test_json_through_a_symbolic_link_keeps_the_link(fake, root):
    (root / "there").mkdir()
    (root / "link.json").symlink_to(root / "there/report.json")
    assert call("grade", "1", "--json", "link.json").exit_code == 0
    assert (root / "link.json").is_symlink()
    assert json.loads((root / "there/report.json").read_text())["seed"] == 7


def test_a_device_is_written_to_and_never_replaced(fake):
    assert call("grade", "1", "--json", os.devnull).exit_code == 0
    assert not Path(os.devnull).is_file()


def test_runs_are_saved_with_their_seed(fake, root):
    assert call("grade", "1", "--save-runs", "runs.bin").exit_code == 0
    assert recording.load(root / "runs.bin", catalog.load("01_add", root)) == (7, ())


def test_a_disk_that_fills_up_meanwhile_costs_the_file_and_not_the_page(fake, root, monkeypatch):
    """Code 3, the page all the same, the older file as it was and no torn one beside it."""
    (root / "report.json").write_text("older")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    result = call("grade", "1", "--json", "report.json")
    assert "report.json could not be written: no space left on device" in refused(result, 3)
    assert "It adds" in result.stdout
    assert (root / "report.json").read_text() == "older"
    assert not list(root.glob(".*.partial"))
