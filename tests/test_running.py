"""The runs of a grade: the overall deadline, the journal, hardware. No rank is started."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader import catalog
from grader.grading.flow import judge, uninterrupted
from grader.grading.observe import SILENT, Journalist, Listener, Listeners
from grader.grading.recorded import Recorded
from grader.grading.request import Machine
from grader.grading.running import Runner, run_all
from grader.model import (
    Case,
    Exercise,
    Outcome,
    Run,
    Submission,
    TimedOut,
    Verdict,
)
from grader.model.errors import Cancelled, NotRun, UsageError
from grader.records.journal import Journal
from tests import small
from tests.fakes import FakeSession, ended, right

EXERCISE = Exercise(
    name="90_total", title="", summary="", folder=Path(), file="total.py", requires=(), cases=(), checks=()
)
SUBMISSION = Submission(path=Path("total.py"), source=b"def total(value): ...", digest="d")


@pytest.fixture
def exercise(tmp_path: Path) -> Exercise:
    return catalog.load(small.NAME, small.build(tmp_path / "root"))


# -- the overall deadline ---------------------------------------------------------------------------------------------


def judged(session: FakeSession, exercise: Exercise, **how: Any) -> tuple[Any, Any]:
    with Runner(session, exercise, SUBMISSION, 1, **how).running() as runs:
        verdicts = judge(exercise, SUBMISSION, runs)
    return runs.finished(), verdicts


def test_when_the_time_is_up_the_report_says_what_is_known(exercise: Exercise, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was run: all is blocked, and none failed."""
    session = FakeSession()
    _, verdicts = judged(session, exercise, until=time.monotonic())
    assert {verdict.outcome for verdict in verdicts} == {Outcome.BLOCKED} and "--deadline" in verdicts[0].message
    assert session.closed and session.asked == 0


def test_a_case_cut_short_by_the_deadline_does_not_fail_the_student(exercise: Exercise) -> None:
    """It had less time than the exercise gives, so that it took too long says nothing."""
    session = FakeSession(ended(TimedOut()))
    until = time.monotonic() + 10
    with Runner(session, exercise, SUBMISSION, 1, until=until).running() as runner, pytest.raises(NotRun):
        runner.wait(exercise.cases[0])


def test_partial_credit(exercise: Exercise) -> None:
    """A case that could not be run for want of time leaves the others' checks as they are."""

    def slow(submission: Submission, case: Case) -> Run:
        return (ended(TimedOut()) if case.name == "bad" else right)(submission, case)

    _, verdicts = judged(FakeSession(otherwise=slow), exercise, until=time.monotonic() + 10)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.PASSED, Outcome.PASSED, Outcome.BLOCKED]


# -- the journal ------------------------------------------------------------------------------------------------------


def journal(path: Path, exercise: Exercise, seed: int | None = None) -> Journal:
    return Journal(path, exercise, SUBMISSION, seed, drawn=42)


def test_a_killed_grade_goes_on_where_it_was(exercise: Exercise, tmp_path: Path) -> None:
    """The seed and the runs come back; only what is missing is run. A torn record is as good as none."""
    path = tmp_path / "journal"
    first = journal(path, exercise)
    session = FakeSession()
    _, before = judged(session, exercise, listener=Journalist(first))
    whole = session.asked
    first.close()
    content = path.read_bytes()
    for cut in (len(content), len(content) // 2, 200, 60, 9):
        path.write_bytes(content[:cut])
        again = journal(path, exercise)
        session = FakeSession()
        _, verdicts = judged(session, exercise, listener=Journalist(again), known=again.runs)
        again.close()
        assert again.seed == 42 and [v.outcome for v in verdicts] == [v.outcome for v in before]
        assert session.asked == whole - len(again.runs) and again.runs.keys() <= {
            "import[1]",
            "sum[1]",
            "sum[2]",
            "bad[1]",
        }


def test_a_journal_of_another_grade_is_refused(exercise: Exercise, tmp_path: Path) -> None:
    """Other code, another seed, another exercise, or no journal at all."""
    path = tmp_path / "journal"
    journal(path, exercise, seed=1).close()
    assert journal(path, exercise).seed == 1
    with pytest.raises(UsageError, match="another grade"):
        journal(path, exercise, seed=2)
    with pytest.raises(UsageError, match="another grade"):
        Journal(path, exercise, replace(SUBMISSION, digest="other"), None, 0)
    (exercise.folder / "checks.py").write_text("# changed\n")
    with pytest.raises(UsageError, match="another grade"):
        journal(path, exercise)
    path.write_text("a text\n" * 20)
    with pytest.raises(UsageError, match="no journal"):
        journal(path, exercise)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_until_torch_is_imported_and_is_not_lost(number: int) -> None:
    """In the middle of the import it would be lost now and then."""
    done = []

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt(number)

    before = signal.signal(number, stop)
    try:
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            signal.raise_signal(number)
            done.append("the rest of the import")
        assert done and signal.getsignal(number) is stop
    finally:
        signal.signal(number, before)


def test_without_an_interrupt_nothing_is_raised() -> None:
    before = signal.getsignal(signal.SIGINT)
    with uninterrupted():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


CASES = (Case(name="a", world_size=1, probe="a"), Case(name="b", world_size=1, probe="b"))


def test_a_grade_that_was_called_off_starts_nothing_more() -> None:
    session = FakeSession()
    heard: list[str] = []

    class Ear(Listener):
        def started(self, case: Case) -> None:
            heard.append(case.id)
            session.cancel()

    runner = Runner(session, replace(EXERCISE, cases=CASES), SUBMISSION, 1, listener=Ear(), jobs=1)
    with runner.running():
        runner.start()
        runner.wait(CASES[0])
        with pytest.raises(Cancelled):
            runner.wait(CASES[1])
    assert heard == ["a[1]"]


class Heard(Listener):
    """Notes what it hears."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str]] = []

    def phase(self, text: str) -> None:
        self.all.append(("phase", text))

    def began(self, exercise: Exercise, seed: int) -> None:
        self.all.append(("began", exercise.name))

    def started(self, case: Case) -> None:
        self.all.append(("started", case.id))

    def ended(self, run: Run) -> None:
        self.all.append(("ended", run.case.id))

    def judged(self, verdict: Verdict) -> None:
        self.all.append(("judged", verdict.check.id))


def test_all_who_listen_hear_of_cases_runs_and_verdicts(exercise: Exercise) -> None:
    """In the order in which it happens; a check is judged as soon as its runs are there."""
    one, two = Heard(), Heard()
    judged(FakeSession(), exercise, listener=Listeners(one, SILENT, two), jobs=1)
    assert one.all == two.all
    first = [("began", small.NAME), ("started", "import[1]"), ("ended", "import[1]"), ("started", "sum[1]")]
    assert one.all[:4] == first
    assert [what for kind, what in one.all if kind == "judged"] == ["sums", "same", "refuses"]


# -- hardware ---------------------------------------------------------------------------------------------------------


def with_gpus(exercise: Exercise, count: int) -> Exercise:
    """The exercise, with the family `sum` on so many GPUs."""
    cases = (replace(case, gpus=count) if case.name == "sum" else case for case in exercise.cases)
    return replace(exercise, cases=tuple(cases))


def test_a_check_whose_hardware_is_absent_is_skipped_with_the_reason(exercise: Exercise) -> None:
    """And so is one that needs it. It counts neither for nor against the student, and nothing is run for it."""
    session = FakeSession()
    runs, verdicts = judged(session, with_gpus(exercise, 2), machine=Machine(gpus=1))
    assert [verdict.outcome for verdict in verdicts] == [Outcome.SKIPPED, Outcome.SKIPPED, Outcome.PASSED]
    assert {verdict.message for verdict in verdicts[:2]} == {"needs 2 GPUs; this machine has 1"}
    assert [case.name for case in session.cases] == ["import", "bad"] == [run.case.name for run in runs]


def test_recorded_runs_of_a_smaller_machine_are_judged_in_the_same_way(exercise: Exercise) -> None:
    wanting = with_gpus(exercise, 1)
    runs = run_all(FakeSession(), wanting, SUBMISSION, 1) if Machine().gpu_count() == 0 else ()
    verdicts = judge(wanting, SUBMISSION, Recorded(1, [run for run in runs if run.case.name != "sum"]))
    assert verdicts[0].outcome is Outcome.SKIPPED and verdicts[0].message.startswith("needs 1 GPU;")


def test_with_the_cpu_chosen_there_are_no_gpus(exercise: Exercise) -> None:
    assert Machine(device="cpu", gpus=8).gpu_count() == 0


def test_runs_on_gpus_do_not_overlap(exercise: Exercise) -> None:
    """Memory is judged in them. Others go on beside them."""
    under_way: list[str] = []

    def busy(submission: Submission, case: Case) -> Run:
        if case.gpus:
            assert not under_way
            under_way.append(case.id)
            time.sleep(0.05)
            under_way.clear()
        return right(submission, case)

    _, verdicts = judged(FakeSession(otherwise=busy), with_gpus(exercise, 1), machine=Machine(gpus=1, cores=8))
    assert {verdict.outcome for verdict in verdicts} == {Outcome.PASSED}


@pytest.mark.parametrize(("cores", "jobs"), [(1, 1), (2, 2), (4, 3), (64, 4)])
def test_as_many_cases_run_at_once_as_the_cores_allow(cores: int, jobs: int) -> None:
    assert Machine(cores=cores).jobs == jobs


# -- two grades in one process ----------------------------------------------------------------------------------------


def test_two_grades_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Different exercises, different machines, threads of one process; the environment stays as it is."""
    before = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    roots = [small.build(tmp_path / name) for name in ("one", "two")]
    checks = roots[1] / "exercises" / small.NAME / "checks.py"
    checks.write_text(checks.read_text().replace('"TypeError"', '"OSError"'))
    both = threading.Barrier(2)

    def together(submission: Submission, case: Case) -> Run:
        if case.name == "import":
            both.wait(timeout=30)
        assert dict(os.environ).get("CUDA_VISIBLE_DEVICES") == before.get("CUDA_VISIBLE_DEVICES")
        return right(submission, case)

    def graded(root: Path, gpus: int) -> list[Outcome]:
        try:
            exercise = with_gpus(catalog.load(small.NAME, root), 1)
            _, verdicts = judged(FakeSession(otherwise=together), exercise, machine=Machine(gpus=gpus))
        except Exception:
            both.abort()  # so that this error is the one that is told
            raise
        return [verdict.outcome for verdict in verdicts]

    for _ in range(3):
        with ThreadPoolExecutor(max_workers=2) as pool:
            grades = [pool.submit(graded, root, gpus) for root, gpus in zip(roots, (1, 0), strict=True)]
        causes = [grade.exception() for grade in grades]
        assert [cause for cause in causes if cause and not isinstance(cause, threading.BrokenBarrierError)] == []
        one, two = (grade.result() for grade in grades)
        assert one == [Outcome.PASSED] * 3
        assert two == [Outcome.SKIPPED, Outcome.SKIPPED, Outcome.FAILED]
    assert {name: os.environ.get(name) for name in before} == before
