"""Where the machine is at fault, and how a whole grade settles it once. No rank is started."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from grader.grading.flow import judge
from grader.grading.running import Runner
from grader.grading.sessions import AnySession
from grader.model import Case, Exercise, Outcome, Run, Submission
from grader.model.errors import Cancelled, NoRankStarted, NotRun, RunError, WatcherKilled
from grader.model.witness import Link, Witness
from tests.blame.grades import KILL, NO_HOST, ODD, SOLUTION, SUBMISSION, Grade, grade, is_charged
from tests.fakes import FakeSession, right


def test_a_session_that_cannot_begin_is_the_machines_fault_at_once(exercise: Exercise) -> None:
    """The first, and a fresh one that was to settle a doubt."""
    for answers, asked in (((NO_HOST,), 1), ((ODD, NO_HOST), 2), ((ODD, ODD, NO_HOST), 3)):
        made = grade(exercise, *answers, solution=SOLUTION)
        with pytest.raises(RunError):
            made.run()
        assert len(made.log) == asked


def test_a_fresh_session_that_cannot_be_made_is_the_machines_fault(
    exercise: Exercise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room for its scratch folder."""
    made = grade(exercise, ODD)

    def no_room() -> FakeSession:
        raise NoRankStarted("No scratch folder could be made.")

    monkeypatch.setattr(made.session, "fresh", no_room)
    with pytest.raises(RunError, match="scratch"):
        made.run()


# -- a whole grade -----------------------------------------------------------------------------------------------------


def test_the_doubt_is_settled_once_for_a_grade(exercise: Exercise) -> None:
    """Later failures of the kind are charged at once, each in the session that the last has left; others are not."""
    made = grade(exercise, ODD, ODD, right, ODD, KILL, solution=SOLUTION)
    assert is_charged(made.run(0)) and is_charged(made.run(1))
    assert made.log == [(0, "theirs"), (1, "theirs"), (2, "ours"), (2, "theirs")]
    assert not is_charged(made.run(2)), "one rank that is killed is another kind of failure"
    assert made.log[4:] == [(3, "theirs"), (4, "theirs")]


@pytest.mark.parametrize(
    "witness", [Witness(complete=False), Witness(unclaimed=Link(ranks=(), connections=2001, bytes=0))]
)
def test_who_has_taken_all_ports_is_charged_with_what_lacks_one(exercise: Exercise, witness: Witness) -> None:
    """For a minute nobody finds a port: no session of the submission's comes up, nor one of the solution's."""

    def takes(submission: Submission, case: Case) -> Run:
        return replace(right(submission, case), witness=witness)

    made = grade(exercise, takes, ODD, NO_HOST, solution=SOLUTION)
    assert not is_charged(made.run(0)) and is_charged(made.run(1))


def test_a_session_that_was_left_is_closed_but_the_first_is_its_owners(exercise: Exercise) -> None:
    made = grade(exercise, ODD, ODD, right, ODD, solution=SOLUTION)
    made.run(0), made.run(1)
    made.sessions.close()
    assert [session.closed for session in made.session.made] == [True, True] and not made.session.closed


def test_a_whole_grade_of_failures_fails_every_check_that_asks_and_breaks_none(exercise: Exercise) -> None:
    """The import goes well; then no case has a result."""

    def sabotage(submission: Submission, case: Case) -> Run:
        if case.name != "import" and submission is SUBMISSION:
            raise WatcherKilled()
        return right(submission, case)

    session = FakeSession(otherwise=sabotage)
    with Runner(session, exercise, SUBMISSION, 1, solution=lambda: SOLUTION).running() as runs:
        verdicts = judge(exercise, SUBMISSION, runs)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.FAILED, Outcome.BLOCKED, Outcome.FAILED]
    assert sum(submission is SOLUTION for _, submission in session.log) == 1
    assert len(session.log) == 1 + 3 + 2, "the import, one more of one case, and the solution"


def test_whoever_settles_a_doubt_is_alone(exercise: Exercise) -> None:
    """Runs that are under way end first, and none begins before it is settled."""
    under_way, most = [0], [0]
    gate = threading.Barrier(2)
    first = threading.Event()

    def answer(submission: Submission, case: Case) -> Run:
        under_way[0] += 1
        try:
            if not first.is_set():
                gate.wait(10)
                first.set()
                time.sleep(0.05)
                raise ODD
            if submission is SOLUTION or len(made.session.made) == 1:
                most[0] = max(most[0], under_way[0])
            time.sleep(0.05)
            if len(made.session.log) <= 4:
                raise ODD
            return right(submission, case)
        finally:
            under_way[0] -= 1

    made = grade(exercise, otherwise=answer, solution=SOLUTION)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda number: quiet(made, number), [0, 1, 0, 1]))
    assert most[0] == 1


def quiet(made: Grade, number: int) -> None:
    with contextlib.suppress(RunError):
        made.run(number)


def test_a_grade_that_is_called_off_settles_nothing(exercise: Exercise) -> None:
    """Cancelled and NotRun pass through, and no fresh session is made for a session that is closed."""
    for error in (Cancelled(), NotRun()):
        made = grade(exercise, error)
        with pytest.raises(type(error)):
            made.run()
        assert made.session.made == []
    made = grade(exercise, ODD)
    made.session.close()
    with pytest.raises(Cancelled):
        made.run()


def test_after_the_time_is_up_nothing_is_tried_again(exercise: Exercise) -> None:
    """What is left of the grade's time holds for the second attempt as well."""
    clock = time.monotonic() + 3.2

    def late(submission: Submission, case: Case) -> Run:
        time.sleep(0.5)
        raise ODD

    session = FakeSession(otherwise=late)
    with Runner(session, exercise, SUBMISSION, 1, until=clock).running() as runner, pytest.raises(NotRun):
        runner._jobs["sum[1]"] = runner._pool.submit(runner._run, runner.cases[0])
        runner._jobs["sum[1]"].result()
    assert len(session.log) == 1


def accepts(session: AnySession) -> None:
    """mypy holds the fake to the protocol."""


accepts(FakeSession())
