"""Runs of which no check will hear are not made, and those that somebody waits for come first."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from grader import catalog
from grader.grading.demand import Demand, families
from grader.grading.flow import judge
from grader.grading.running import Runner
from grader.model import Case, Exercise, Outcome, Run, Submission, TimedOut, Verdict
from grader.model.errors import Cancelled
from grader.ranks import Live
from grader.ranks.diagnosis import diagnose
from tests import small
from tests.fakes import FakeSession, right

SUBMISSION = Submission.of(Path("total.py"), b"def total(value): ...")
PATIENCE = 60.0


@pytest.fixture
def exercise(tmp_path: Path) -> Exercise:
    return catalog.load(small.NAME, small.build(tmp_path / "root"))


def verdict(exercise: Exercise, check: str, outcome: Outcome) -> Verdict:
    return Verdict(check=next(one for one in exercise.checks if one.id == check), outcome=outcome)


def test_what_a_check_may_ask_for_is_read_from_its_source(exercise: Exercise) -> None:
    """Also through the functions that it calls; one that names no family may ask for all."""
    found = families(exercise)
    assert found["same"] == {"sum"} and "bad" in found["refuses"]
    (exercise.folder / "checks.py").write_text(
        "FAMILY = 'bad'\n\ndef runs_of(runs):\n    return runs(FAMILY)\n\ndef test_sums(runs):\n    runs_of(runs)\n\n"
        "def test_same(runs):\n    runs('su' + 'm')\n\ndef test_refuses(runs):\n    runs('sum')\n"
    )
    assert families(exercise) == {"sums": {"bad"}, "same": {"sum", "bad"}, "refuses": {"sum"}}
    (exercise.folder / "checks.py").write_text(
        "def bad(runs, name):\n    return runs(f'{name}m'), f'{name}'\n\ndef test_sums(runs):\n    bad(runs, 'su')\n\n"
        "def test_same(runs):\n    runs(f'{1}')\n\ndef test_refuses(runs):\n    runs('bad')\n"
    )
    assert families(exercise) == {"sums": {"sum"}, "same": {"sum", "bad"}, "refuses": {"bad"}}
    (exercise.folder / "checks.py").write_text("def test_sums(:\n")
    assert set(families(exercise).values()) == {frozenset({"sum", "bad"})}


def test_a_case_is_wanted_as_long_as_an_open_check_may_ask_for_it(exercise: Exercise) -> None:
    demand = Demand(exercise)
    total, bad = exercise.cases[0], exercise.cases[-1]
    assert demand.wants(total) and demand.wants(bad) and not demand.has_failures
    demand.note(verdict(exercise, "sums", Outcome.FAILED))
    assert not demand.wants(total) and demand.wants(bad), "same needs sums"
    demand.note(verdict(exercise, "refuses", Outcome.PASSED))
    assert not demand.wants(bad)


def test_one_case_of_each_family_that_a_first_check_waits_for_comes_first(exercise: Exercise) -> None:
    ordered = sorted(exercise.cases, key=Demand(exercise).urgency)
    assert [case.id for case in ordered] == ["sum[1]", "bad[1]", "sum[2]"]


def test_then_they_come_as_checks_ask_for_them_and_of_those_for_one_check_the_longest(exercise: Exercise) -> None:
    several = tuple(replace(case, world_size=size) for case in exercise.cases[:2] for size in (1, 2, 3))
    exercise = replace(exercise, cases=(exercise.cases[-1], *several))
    demand, paces = Demand(exercise), {"sum[2]": 0.5, "sum[3]": 0.4, "bad[1]": 2.0}
    ordered = sorted(exercise.cases, key=lambda case: demand.urgency(case, paces.get(case.id, 0.0)))
    assert list(dict.fromkeys(case.id for case in ordered)) == ["sum[1]", "bad[1]", "sum[2]", "sum[3]"]


class Looping(FakeSession):
    """Runs of `sum` compute until the deadline, which never comes for two ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.off = threading.Event()

    def run(self, exercise: Exercise, submission: Submission, case: Case, live: Live | None = None) -> Run:
        made = super().run(exercise, submission, case, live)
        if case.name != "sum":
            return made
        if case.world_size == 2:
            assert self.off.wait(PATIENCE)
            raise Cancelled()
        ranks = tuple(replace(record, ending=TimedOut()) for record in made.ranks)
        return replace(made, ranks=ranks, diagnosis=diagnose(case, ranks, "total.py"))

    def call_off(self, case: Case) -> None:
        assert case.id == "sum[2]"
        self.off.set()


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_an_endless_loop_costs_one_deadline(exercise: Exercise, jobs: int) -> None:
    """The check that failed has its verdict at once; what needs it says so, and what does not is judged."""
    session = Looping()
    runner = Runner(session, exercise, SUBMISSION, 1, jobs=jobs)
    with runner.running():
        verdicts = judge(exercise, SUBMISSION, runner)
    assert [one.outcome for one in verdicts] == [Outcome.FAILED, Outcome.BLOCKED, Outcome.PASSED]
    assert [run.case.id for run in runner.finished()] == ["import[1]", "sum[1]", "bad[1]"]


def test_without_a_failure_every_case_is_run(exercise: Exercise) -> None:
    """Also one that no check asks for."""
    (exercise.folder / "checks.py").write_text("".join(f"def test_{one.id}(runs):\n    1\n" for one in exercise.checks))
    runner = Runner(FakeSession(otherwise=right), exercise, SUBMISSION, 1, jobs=1)
    with runner.running():
        judge(exercise, SUBMISSION, runner)
    assert len(runner.finished()) == 4


def test_a_case_that_was_called_off_by_mistake_is_run_when_it_is_asked_for(exercise: Exercise) -> None:
    """Its name may have been put together where nobody could read it."""
    runner = Runner(FakeSession(), exercise, SUBMISSION, 1, jobs=1)
    with runner.running():
        runner.start()
        for check in ("sums", "refuses"):
            runner.judged(verdict(exercise, check, Outcome.FAILED))
        assert runner.wait(exercise.cases[1]).case.id == exercise.cases[1].id
