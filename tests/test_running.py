"""The runs of a grade: what is tried again and what never, the overall deadline, the journal. No rank is started."""

from __future__ import annotations

import signal
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader import catalog
from grader.grading.flow import run_and_judge, uninterrupted
from grader.grading.running import Listener, Order, Runner, oom_kills, run_fairly
from grader.model import (
    Case,
    Check,
    Exercise,
    Killed,
    Outcome,
    Raised,
    Run,
    Submission,
    TimedOut,
    Verdict,
)
from grader.model.errors import Cancelled, NotRun, RunError, UsageError, WatcherKilled
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


def fairly(session: FakeSession, exercise: Exercise) -> Run:
    return run_fairly(session, exercise, SUBMISSION, exercise.cases[0])


# -- what is tried again ----------------------------------------------------------------------------------------------


def test_a_right_run_is_run_once(exercise: Exercise) -> None:
    session = FakeSession()
    assert fairly(session, exercise).retried == "" and session.asked == 1


def test_a_failure_of_the_students_is_never_retried(exercise: Exercise) -> None:
    """An exception, a memory fault, a deadline."""
    for ending in (Raised(type="ValueError", message="no"), Killed(signal="SIGSEGV"), TimedOut()):
        session = FakeSession(ended(ending))
        assert type(fairly(session, exercise).ranks[0].ending) is type(ending) and session.asked == 1


def test_a_rank_killed_from_outside_is_tried_once_more_and_noted(exercise: Exercise) -> None:
    """The second attempt counts: right, or killed again, which then is the student's."""
    session = FakeSession(ended(Killed(signal="SIGKILL")))
    again = fairly(session, exercise)
    assert session.asked == 2 and "SIGKILL" in again.retried
    session = FakeSession(ended(Killed(signal="SIGKILL")), ended(Killed(signal="SIGKILL")))
    assert isinstance(fairly(session, exercise).ranks[0].ending, Killed) and session.asked == 2


def test_a_taken_port_is_tried_once_more(exercise: Exercise) -> None:
    taken = Raised(type="DistNetworkError", message="… (errno: 98 - Address already in use).")
    assert "port" in fairly(FakeSession(ended(taken)), exercise).retried


def test_a_watcher_killed_twice_is_the_submissions_doing(exercise: Exercise) -> None:
    """Once is not; with memory run out it is the machine's."""
    assert fairly(FakeSession(WatcherKilled()), exercise).diagnosis is None
    run = fairly(FakeSession(WatcherKilled(), WatcherKilled()), exercise)
    assert run.diagnosis is not None and "watches the ranks" in run.diagnosis.findings[0].subject


def test_memory_that_ran_out_twice_is_the_machines_fault(exercise: Exercise, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter(range(10))
    monkeypatch.setattr("grader.grading.running.oom_kills", lambda: next(counts))
    with pytest.raises(RunError, match="memory"):
        fairly(FakeSession(ended(Killed(signal="SIGKILL")), ended(Killed(signal="SIGKILL"))), exercise)
    with pytest.raises(WatcherKilled):
        fairly(FakeSession(WatcherKilled(), WatcherKilled()), exercise)


def test_the_kernels_count_is_read(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("pgfault 3\noom_kill 7\n")
    assert oom_kills(tmp_path / "vmstat") == 7 and oom_kills(tmp_path / "absent") == 0


# -- the overall deadline ---------------------------------------------------------------------------------------------


def judged(session: FakeSession, order: Order) -> tuple[Any, Any]:
    return run_and_judge(nullcontext(session), order, 1)


def test_when_the_time_is_up_the_report_says_what_is_known(exercise: Exercise, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was run: all is blocked, and none failed."""
    session = FakeSession()
    _, verdicts = judged(session, Order(exercise=exercise, submission=SUBMISSION, until=time.monotonic()))
    assert {verdict.outcome for verdict in verdicts} == {Outcome.BLOCKED} and "--deadline" in verdicts[0].message
    assert session.closed and session.asked == 0


def test_a_case_cut_short_by_the_deadline_does_not_fail_the_student(exercise: Exercise) -> None:
    """It had less time than the exercise gives, so that it took too long says nothing."""
    order = Order(exercise=exercise, submission=SUBMISSION, until=time.monotonic() + 10)
    with Runner(FakeSession(ended(TimedOut())), order).running() as runner:
        runner.start(exercise.cases[0])
        with pytest.raises(NotRun):
            runner.wait(exercise.cases[0])


def test_partial_credit(exercise: Exercise) -> None:
    """A case that could not be run for want of time leaves the others' checks as they are."""

    def slow(submission: Submission, case: Case) -> Run:
        return (ended(TimedOut()) if case.name == "bad" else right)(submission, case)

    order = Order(exercise=exercise, submission=SUBMISSION, until=time.monotonic() + 10)
    _, verdicts = judged(FakeSession(*[slow] * 4), order)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.PASSED, Outcome.PASSED, Outcome.BLOCKED]


# -- the journal ------------------------------------------------------------------------------------------------------


def journal(path: Path, exercise: Exercise, seed: int | None = None) -> Journal:
    return Journal(path, (exercise,), SUBMISSION, seed, drawn=42)


def test_a_killed_grade_goes_on_where_it_was(exercise: Exercise, tmp_path: Path) -> None:
    """The seed and the runs come back; only what is missing is run. A torn record is as good as none."""
    path = tmp_path / "journal"
    first = journal(path, exercise)
    session = FakeSession()
    _, before = judged(session, Order(exercise=exercise, submission=SUBMISSION, journal=first))
    whole = session.asked
    first.close()
    content = path.read_bytes()
    for cut in (len(content), len(content) // 2, 200, 60, 9):
        path.write_bytes(content[:cut])
        again = journal(path, exercise)
        session = FakeSession()
        _, verdicts = judged(session, Order(exercise=exercise, submission=SUBMISSION, journal=again))
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
        Journal(path, (exercise,), replace(SUBMISSION, digest="other"), None, 0)
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


def test_a_grade_that_was_called_off_starts_nothing_more() -> None:
    session = FakeSession()
    heard: list[str] = []

    class Ear(Listener):
        def started(self, case: Case) -> None:
            heard.append(case.id)
            session.cancels += 1

    runner = Runner(session, Order(exercise=EXERCISE, submission=SUBMISSION, listener=Ear(), jobs=1))
    first, second = (Case(name=name, world_size=1, probe=name) for name in ("a", "b"))
    with runner.running():
        runner.start(first, second)
        runner.wait(first)
        with pytest.raises(Cancelled):
            runner.wait(second)
    assert heard == ["a[1]"]


def test_whoever_listens_hears_of_cases_runs_and_verdicts() -> None:
    heard: list[Any] = []

    class Ear(Listener):
        def started(self, case: Case) -> None:
            heard.append(("started", case.id))

        def ended(self, run: Run) -> None:
            heard.append(("ended", run.case.id))

        def judged(self, verdict: Verdict) -> None:
            heard.append(("judged", verdict.check.id))

    order = Order(exercise=EXERCISE, submission=SUBMISSION, listener=Ear(), jobs=1)
    with (runner := Runner(FakeSession(), order)).running():
        runner.start(case := Case(name="a", world_size=1, probe="a"))
        runner.wait(case)
    order.judged(Verdict(check=Check(id="right", title="", points=1), outcome=Outcome.PASSED))
    assert heard == [("started", "a[1]"), ("ended", "a[1]"), ("judged", "right")]
