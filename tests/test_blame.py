"""Whose fault a run is that fails by itself: the rule, and what is done to settle it. No rank is started."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader import catalog
from grader.grading.blame import ATTEMPTS, Blame, Doubt, Kind, Step, decide, doubt_about
from grader.grading.flow import judge
from grader.grading.running import Runner
from grader.grading.sessions import AnySession, Sessions
from grader.model import Case, Diagnosis, Exercise, Killed, Outcome, Raised, Run, StackFrame, Submission, TimedOut
from grader.model.errors import Cancelled, NoRankStarted, NotRun, RunError, WatcherKilled
from tests import small
from tests.fakes import Answer, FakeSession, ended, right

SUBMISSION = Submission(path=Path("total.py"), source=b"def total(value): ...", digest="theirs")
SOLUTION = Submission(path=Path("total.py"), source=b"def total(value): return 1", digest="ours")
KILL = ended(Killed(signal="SIGKILL"))
ODD = RunError("The process that watches the ranks said something odd (…). Try again.")
PORT = ended(Raised(type="DistNetworkError", message="… (errno: 98 - Address already in use)."))
NO_HOST = NoRankStarted("The process that ranks start from did not come up: it said nothing")


@pytest.fixture
def exercise(tmp_path: Path) -> Exercise:
    return catalog.load(small.NAME, small.build(tmp_path / "root"))


class Grade:
    """The runs of one submission in a fake session."""

    def __init__(self, exercise: Exercise, session: FakeSession, solution: Submission | None = None) -> None:
        self.exercise, self.session, self.sessions = exercise, session, Sessions(session)
        self.blame = Blame(self.sessions, SUBMISSION, lambda: solution)

    def run(self, number: int = 0) -> Run:
        case = self.exercise.cases[number]
        return self.blame.run(case, lambda session, code: session.run(self.exercise, code, case))

    @property
    def log(self) -> list[tuple[int, str]]:
        """In which session (0: the first) whose code was run, in order."""
        return [(number, submission.digest) for number, submission in self.session.log]


def grade(exercise: Exercise, *answers: Any, solution: Submission | None = None, otherwise: Any = None) -> Grade:
    return Grade(exercise, FakeSession(*answers, otherwise=otherwise), solution)


def is_charged(run: Run) -> bool:
    return run.diagnosis is not None and "no result" in run.diagnosis.findings[0].subject


# -- the rule -----------------------------------------------------------------------------------------------------


def doubt(kind: Kind, error: RunError | None = None) -> Doubt:
    return Doubt(kind=kind, reason="something went wrong", error=error)


def test_the_rule_of_blame() -> None:
    """For every kind of failure: once more (or twice), then the solution, and only then is somebody blamed. What may
    have met a neighbour is run alone before all that."""
    nobody: frozenset[Kind] = frozenset()
    assert decide([None], None, nobody) is Step.KEEP
    assert decide([doubt(Kind.SHARED)], None, frozenset(Kind)) is Step.ALONE
    for kind in set(Kind) - {Kind.SHARED}:
        one, two = [doubt(kind)], [doubt(kind)] * ATTEMPTS.get(kind, 2)
        assert all(decide(two[:count], None, nobody) is Step.AGAIN for count in range(1, len(two)))
        first = Step.COMPARE if kind is Kind.PROBE else Step.AGAIN
        assert decide(one, None, nobody) is first, "no other program on the machine makes a probe raise"
        assert decide([*one, None], None, nobody) is Step.KEEP
        assert decide(two, None, nobody) is Step.COMPARE
        assert decide(two, True, nobody) is Step.CHARGE
        assert decide(two, False, nobody) is Step.MACHINE
        assert decide(one, None, frozenset({kind})) is Step.CHARGE
        others = frozenset(Kind) - {kind}
        assert decide(one, None, others) is first, "what it was charged with was something else"


def test_before_any_rank_was_started_it_is_the_machine() -> None:
    """Whatever else is known: no rank can have brought it about."""
    early = doubt(Kind.NO_RESULT, NO_HOST)
    for before, went_well, charged in itertools.product(
        ([], [doubt(Kind.KILLED)]), (None, True, False), (frozenset[Kind](), frozenset(Kind))
    ):
        assert decide([*before, early], went_well, charged) is Step.MACHINE


# -- what is tried again --------------------------------------------------------------------------------------------


def test_a_right_run_is_run_once(exercise: Exercise) -> None:
    made = grade(exercise)
    assert made.run().retried == "" and made.log == [(0, "theirs")]


def test_a_failure_of_the_students_is_never_retried(exercise: Exercise) -> None:
    """An exception, a memory fault, a deadline, a limit that the grader enforced."""
    limit = Killed(signal="SIGKILL", by_grader=True, limit="memory: 3 GiB, at most 1 GiB")
    for ending in (Raised(type="ValueError", message="no"), Killed(signal="SIGSEGV"), TimedOut(), limit):
        made = grade(exercise, ended(ending))
        assert type(made.run().ranks[0].ending) is type(ending) and len(made.log) == 1


FRAME = StackFrame(file="probe.py", line=41, function="sum")
FAULT = Raised(type="NameError", message="name 'x' is not defined", stack=(FRAME,))


def fault(ending: Raised = FAULT) -> Answer:
    """A run in which the probe raised something of its own on rank 0."""

    def run(submission: Submission, case: Case) -> Run:
        made = ended(ending)(submission, case)
        return replace(made, diagnosis=Diagnosis(kind="raised", ranks=(0,), findings=()))

    return run


def test_what_the_probe_raises_with_the_solution_too_is_its_authors_fault(exercise: Exercise) -> None:
    """It is told with the probe's line, and costs the student nothing."""
    made = grade(exercise, fault(), fault(), solution=SOLUTION)
    with pytest.raises(RunError, match=r"^probe\.py, line 41, raised NameError: name 'x' .* author is at fault\.$"):
        made.run()
    assert made.log == [(0, "theirs"), (1, "ours")]


@pytest.mark.parametrize("solution", [SOLUTION, None])
def test_what_the_probe_raises_with_the_submission_alone_is_the_submissions_doing(
    exercise: Exercise, solution: Submission | None
) -> None:
    """What it returned led to it. Later ones of that kind are charged at once; without the solution all are."""
    made = grade(exercise, fault(), *([right] if solution else []), fault(), solution=solution)
    assert made.run().ranks[0].ending == FAULT and made.run(1).ranks[0].ending == FAULT
    assert [who for _, who in made.log] == ["theirs", *(["ours"] if solution else []), "theirs"]


def test_what_the_probe_raises_on_purpose_or_below_the_students_code_leaves_no_doubt(exercise: Exercise) -> None:
    """Nor what it raises because another rank has gone."""
    theirs = replace(FAULT, stack=(FRAME, StackFrame(file="total.py", line=3, function="total", student=True)))
    for ending in (theirs, replace(FAULT, type="NeverMeet"), replace(FAULT, communication=True)):
        assert doubt_about(fault(ending)(SUBMISSION, exercise.cases[0])) is None


def test_a_case_in_which_ranks_are_to_die_leaves_no_doubt(exercise: Exercise) -> None:
    run = KILL(SUBMISSION, exercise.cases[0])
    assert doubt_about(run) and doubt_about(replace(run, case=replace(run.case, crashes=True))) is None


@pytest.mark.parametrize("failure", [KILL, PORT, WatcherKilled(), ODD])
def test_once_is_not_charged_and_is_noted(exercise: Exercise, failure: Any) -> None:
    """The second attempt, in a fresh session, counts. The solution need not be asked, and what follows stays there."""
    made = grade(exercise, failure, solution=SOLUTION)
    run = made.run()
    assert run.retried and not is_charged(run) and made.log == [(0, "theirs"), (1, "theirs")]
    made.run(1)
    assert made.log[-1] == (1, "theirs")


@pytest.mark.parametrize("failure", [WatcherKilled(), ODD])
def test_twice_is_the_submissions_doing(exercise: Exercise, failure: RunError) -> None:
    """Where the solution is not at hand."""
    made = grade(exercise, failure, failure)
    run = made.run()
    assert is_charged(run) and "so it went again" in run.retried and "solution" not in run.retried
    assert run.diagnosis and "process that watches the ranks" in run.diagnosis.findings[0].sentence()
    assert made.log == [(0, "theirs"), (1, "theirs")]


def test_before_anybody_is_blamed_the_solution_is_run_in_the_same_way(exercise: Exercise) -> None:
    """In a session of its own. It runs well, so the submission is charged, and the note says why."""
    made = grade(exercise, ODD, ODD, solution=SOLUTION)
    run = made.run()
    assert is_charged(run) and "own solution ran well" in run.retried
    assert made.log == [(0, "theirs"), (1, "theirs"), (2, "ours")]


@pytest.mark.parametrize("failure", [ODD, KILL, PORT, ended(TimedOut())])
def test_where_the_solution_fails_too_the_machine_is_at_fault(exercise: Exercise, failure: Any) -> None:
    """In whichever way it does."""
    made = grade(exercise, KILL, KILL, failed(failure), solution=SOLUTION)
    with pytest.raises(RunError, match="own solution did not run well"):
        made.run()


def failed(answer: Any) -> Any:
    """The answer, with the diagnosis that a session would have given it."""
    from grader.ranks.diagnosis import diagnose

    def run(submission: Submission, case: Case) -> Run:
        made = answer(submission, case)
        return replace(made, diagnosis=diagnose(case, made.ranks, "total.py"))

    return answer if isinstance(answer, Exception) else run


def test_a_rank_that_is_killed_twice_keeps_its_run(exercise: Exercise) -> None:
    """It is judged as any run in which a rank was killed."""
    run = grade(exercise, KILL, KILL, solution=SOLUTION).run()
    assert isinstance(run.ranks[0].ending, Killed) and not is_charged(run) and "own solution" in run.retried


# -- the machine ----------------------------------------------------------------------------------------------------


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


# -- a whole grade --------------------------------------------------------------------------------------------------


def test_the_doubt_is_settled_once_for_a_grade(exercise: Exercise) -> None:
    """Later failures of the kind are charged at once, each in the session that the last has left; others are not."""
    made = grade(exercise, ODD, ODD, right, ODD, KILL, solution=SOLUTION)
    assert is_charged(made.run(0)) and is_charged(made.run(1))
    assert made.log == [(0, "theirs"), (1, "theirs"), (2, "ours"), (2, "theirs")]
    assert not is_charged(made.run(2)), "one rank that is killed is another kind of failure"
    assert made.log[4:] == [(3, "theirs"), (4, "theirs")]


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
