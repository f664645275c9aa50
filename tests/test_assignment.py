"""assignment.yaml, what handing in late costs, and a course's own checks. No process is started."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch

from grader import catalog
from grader.grading.report import not_graded
from grader.judge import judge
from grader.model import Entry, Late, Outcome, Result, Submission, alone
from grader.model.assignment import LateRule, Part
from grader.model.errors import AuthorError, UsageError
from grader.visibility import for_student, result_for_student, withheld_of
from tests import small
from tests.hidden import written
from tests.reports import broken, partial, passed, skipped, submission
from tests.small import bad_run, sum_run

DUE = datetime(2026, 10, 12, 22, 0, tzinfo=UTC)
RULE = LateRule(grace=timedelta(minutes=15), per_day=0.1, days=5)
HANDED_IN = Submission(path=Path("total.py"), source=b"", digest="")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small.build(tmp_path)


def assigned(root: Path, text: str):
    path = root / "assignment.yaml"
    path.write_text(text)
    return catalog.load_assignment(path, root)


# -- the file ---------------------------------------------------------------------------------------------------------


def test_an_assignment_has_weights_due_dates_and_rules(root):
    text = """\
title: Homework 2
due: 2026-10-12T23:59:00+02:00
late: {grace_minutes: 15, percent_per_day: 10, days: 5}
exercises:
  "90": {weight: 60, due: "2026-10-13T00:00:00Z", late: {}}
"""
    found = assigned(root, text)
    (part,) = found.parts
    assert (found.title, found.points, part.exercise) == ("Homework 2", 60, "90_total")
    assert part.due == datetime(2026, 10, 13, tzinfo=UTC) and part.rule == LateRule()
    assert found.checks is None


@pytest.mark.parametrize(
    "text, told",
    [
        ("title: A\nexercises: {91: {weight: 1}}\n", "in quotes"),
        ('title: A\nexercises: {"91": {weight: 1}}\n', "'91' is no exercise"),
        ("title: A\nexercises: {}\n", "at least 1"),
        ("title: A\nexercises: {total: {weight: 1}, 90_total: {weight: 1}}\n", "stands twice"),
        ("title: A\nexercises: {total: {weight: 0}}\n", "greater than 0"),
        ("title: A\nexercises: {total: {wieght: 1}}\n", "unknown key 'wieght'"),
        ("title: A\ndue: 2026-10-12\nexercises: {total: {weight: 1}}\n", "time of day and a zone"),
        ("title: A\ndue: 2026-10-12T10:00:00\nexercises: {total: {weight: 1}}\n", "must name its time zone"),
        ("title: A\ndue: soon\nexercises: {total: {weight: 1}}\n", "Invalid isoformat"),
        ("title: A\nchecks: none\nexercises: {total: {weight: 1}}\n", "there is no folder"),
    ],
)
def test_a_fault_in_the_file_names_its_line(root, text, told):
    with pytest.raises(UsageError) as error:  # exit code 2: the fault is of whoever calls
        assigned(root, text)
    assert told in str(error.value) and "assignment.yaml:" in str(error.value)


# -- late -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "late, kept, told",
    [
        (timedelta(minutes=-1), None, ""),
        (timedelta(minutes=15), None, ""),
        (timedelta(minutes=16), 0.9, "Handed in 16 minutes late: 10 % of the points are taken off."),
        (timedelta(days=1), 0.9, "Handed in 1 day late: 10 % of the points are taken off."),
        (timedelta(days=1, hours=3), 0.8, "Handed in 1 day 3 hours late: 20 % of the points are taken off."),
        (timedelta(days=5), 0.5, "Handed in 5 days late: 50 % of the points are taken off."),
        (timedelta(days=5, seconds=1), 0.0, "Handed in 5 days 1 minute late: it earns no points."),
    ],
)
def test_each_begun_day_costs_its_share(late, kept, told):
    found = Part(exercise="90_total", weight=60, due=DUE, rule=RULE).late(DUE + late)
    assert found is None if kept is None else (found.kept, found.told) == (pytest.approx(kept), told)


def test_an_extension_only_ever_helps():
    part = Part(exercise="90_total", weight=60, due=DUE, rule=RULE)
    assert part.late(DUE + timedelta(days=2), DUE + timedelta(days=3)) is None
    assert part.late(DUE + timedelta(days=2), DUE - timedelta(days=3)).kept == pytest.approx(0.8)


def test_without_a_due_date_or_a_moment_nothing_is_late():
    assert Part(exercise="90_total", weight=60, rule=RULE).late(DUE) is None
    assert Part(exercise="90_total", weight=60, due=DUE, rule=RULE).late(None) is None


# -- sums -------------------------------------------------------------------------------------------------------------


def test_points_that_are_not_counted_leave_their_weight_to_the_others():
    """Of 100 points, 12.5 were skipped and 87.5 earned: that is all of what could be earned."""
    entry = Entry(report=skipped(), weight=60)
    assert (entry.score, entry.max_score, entry.mark) == (pytest.approx(60), pytest.approx(60), pytest.approx(60))


def test_an_exercise_with_a_check_that_could_not_be_judged_has_no_mark():
    assert broken().mark is None and Entry(report=broken(), weight=60).mark is None
    assert passed().mark == 100 and Entry(report=passed(), weight=60).mark == 60


def test_nothing_that_was_judged_is_a_mark_and_nothing_that_was_not():
    """Whatever else the checks came to, and whatever of it a student is shown."""
    for outcomes in itertools.product(Outcome, repeat=3):
        made = passed()
        verdicts = tuple(replace(v, outcome=outcome) for v, outcome in zip(made.verdicts, outcomes, strict=False))
        hidden = replace(verdicts[0], check=replace(verdicts[0].check, visibility="hidden"))
        for first in (verdicts[0], hidden):
            report = replace(made, verdicts=(first, *verdicts[1:]))
            shown = for_student(report)
            result = Result(title="", entries=(Entry(report=passed(), weight=1), Entry(report=report, weight=1)))
            is_broken = Outcome.BROKEN in outcomes
            no_mark = is_broken or set(outcomes) == {Outcome.SKIPPED}
            assert (report.mark is None) == no_mark and (result.mark is None) == is_broken
            assert (report.status == "error") == is_broken == (shown.status == "error")
            assert not is_broken or (shown.mark is None and result_for_student(result).mark is None)


def test_late_points_are_taken_off_the_score_alone():
    entry = Entry(report=passed(), weight=60, late=Late(kept=0.5, told=""))
    assert (entry.score, entry.max_score) == (30, 60)


def test_with_an_exercise_that_could_not_be_judged_the_assignment_has_no_mark():
    lost = not_graded(passed().exercise, submission(), "no room", seed=0, device="cpu")
    result = Result(title="", entries=(Entry(report=passed(), weight=60), Entry(report=lost, weight=40)))
    assert (result.score, result.max_score, result.points) == (60, 100, 100)
    assert (result.mark, result.status) == (None, "error")


def test_a_single_report_is_worth_its_points():
    result = alone(partial())
    assert (result.score, result.max_score, result.status) == (40, 100, "failed")


# -- a course's own checks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["hidden", "hidden/90_total"])
def test_further_checks_lie_in_a_folder_or_in_one_of_the_exercises_name(root, place):
    written(root / place)
    whole = catalog.overlay(catalog.load(small.NAME, root), root / "hidden")
    assert [(check.id, check.visibility) for check in whole.checks[3:]] == [
        ("sums_of_four", "hidden"),
        ("shown_too", "visible"),
    ]
    assert [(case.id, case.visibility) for case in whole.cases[3:]] == [("larger[4]", "hidden")]
    assert whole.probe_of(whole.cases[-1]) == root / "exercises/90_total/probe.py"
    assert whole.check_folders == (root / "exercises/90_total", root / place)


def test_further_cases_may_have_a_probe_of_their_own(root):
    """Then the checks beside it are given that one, and the exercise's keep theirs."""
    folder = written(root / "hidden")
    (folder / "probe.py").write_text((root / "exercises/90_total/probe.py").read_text().replace("rank + 1", "rank + 2"))
    whole = catalog.overlay(catalog.load(small.NAME, root), folder)
    assert [whole.probe_of(case).parent.name for case in whole.cases] == ["90_total"] * 3 + ["hidden"]
    assert [verdict.outcome for verdict in verdicts_of(whole, 1.0)][2:4] == [Outcome.PASSED, Outcome.FAILED]
    assert [verdict.outcome for verdict in verdicts_of(whole, 1.4)][2:4] == [Outcome.PASSED, Outcome.PASSED]


def test_further_checks_that_cannot_be_read_leave_the_others_as_they_are(root):
    folder = written(root / "hidden")
    whole = catalog.overlay(catalog.load(small.NAME, root), folder)
    (folder / "checks.py").write_text("import no_such_module\n")
    verdicts = verdicts_of(whole, 1.0)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.PASSED] * 3 + [Outcome.BROKEN] * 2
    assert "no_such_module" in verdicts[3].message


def judged(root: Path, total: float):
    return verdicts_of(catalog.overlay(catalog.load(small.NAME, root), written(root / "hidden")), total)


def verdicts_of(whole, total: float):
    value = catalog_value(4)
    runs = [sum_run(1, catalog_value(1)), sum_run(2, *[catalog_value(2)] * 2), bad_run("TypeError")]
    runs.append(larger(value * total))
    return judge(whole, HANDED_IN, runs)


def catalog_value(world_size: int) -> torch.Tensor:
    return sum(torch.full((4,), float(rank + 1), dtype=torch.float64) for rank in range(world_size))


def larger(total: torch.Tensor):
    run = sum_run(4, *[total] * 4)
    return type(run)(case=type(run.case)(name="larger", world_size=4, probe="sum"), ranks=run.ranks, seconds=0.1)


def test_further_checks_are_judged_after_the_exercises_own(root):
    assert [verdict.outcome for verdict in judged(root, 1.0)] == [Outcome.PASSED] * 5
    assert [verdict.outcome for verdict in judged(root, 1.5)][3:] == [Outcome.FAILED, Outcome.PASSED]


def test_further_checks_wait_for_the_exercises_own(root):
    exercise = catalog.load(small.NAME, root)
    whole = catalog.overlay(exercise, written(root / "hidden"))
    runs = [sum_run(1, None), sum_run(2, None, None), bad_run("TypeError"), larger(catalog_value(4))]
    verdict = judge(whole, HANDED_IN, runs)[3]
    assert (verdict.outcome, verdict.message) == (Outcome.BLOCKED, "needs: All ranks get the sum")


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"exercise": "larger:→sum:"}, "the exercise has 'sum' already"),
        ({"exercise": "sums_of_four→sums"}, "the exercise has 'sums' already"),
        ({"exercise": "probe: sum→probe: som"}, "has no function 'som'"),
        ({"exercise": "needs: [sums]→needs: [sum_of]"}, "which is no check"),
        ({"exercise": "points: 15→pionts: 15"}, "unknown key 'pionts'"),
        ({"checks": "test_shown_too→test_shown"}, "has no function 'test_shown_too'"),
    ],
)
def test_a_fault_in_further_checks_is_told(root, changes, told):
    with pytest.raises(AuthorError, match="hidden") as error:
        catalog.overlay(catalog.load(small.NAME, root), written(root / "hidden", **changes))
    assert told in str(error.value)


def test_a_visible_check_does_not_wait_for_a_hidden_one(root):
    path = root / "exercises/90_total/exercise.yaml"
    path.write_text(path.read_text().replace("points: 50,", "points: 50, visibility: hidden,"))
    with pytest.raises(AuthorError, match="'same' is visible and needs 'sums', which is not"):
        catalog.load(small.NAME, root)


def test_a_student_sees_nothing_of_hidden_checks_and_their_runs(root):
    exercise = catalog.load(small.NAME, root)
    whole = catalog.overlay(exercise, written(root / "hidden"))
    from grader.grading.report import summarise

    runs = (sum_run(1, catalog_value(1)), larger(catalog_value(4)))
    verdicts = judged(root, 1.5)
    runs = (runs[0], type(runs[1])(case=whole.cases[-1], ranks=runs[1].ranks, seconds=0.1))
    report = summarise(whole, HANDED_IN, runs, verdicts, seed=1, device="cpu", sandbox="limits", seconds=1)
    shown = for_student(report)
    assert [verdict.check.id for verdict in shown.verdicts] == ["sums", "same", "refuses", "shown_too"]
    assert [verdict.check.id for verdict in withheld_of(report)] == ["sums_of_four"]
    assert [run.case.name for run in shown.runs] == ["sum"]
    assert "sums_of_four" not in repr(shown) and "larger" not in repr(shown)
    result = result_for_student(Result(title="", entries=(Entry(report=report, weight=240),)))
    assert (result.score, result.max_score) == (210, 210)
    assert shown.notes == ("1 check of your course is judged too and not shown here, worth 15 points.",)
    told = "worth 30 points of the assignment, 15 of the exercise's 120."
    assert told in result.entries[0].report.notes[0] and (result.entries[0].weight, report.max_score) == (210, 120)
