"""Whose fault a run is that fails by itself: the rule, and what is tried again. No rank is started."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from grader.grading.blame import ATTEMPTS, Doubt, Kind, Step, decide, doubt_about
from grader.model import Case, Diagnosis, Exercise, Killed, Raised, Run, StackFrame, Submission, TimedOut
from grader.model.errors import RunError, WatcherKilled
from tests.blame.grades import KILL, NO_HOST, ODD, SOLUTION, SUBMISSION, grade, is_charged
from tests.fakes import Answer, ended, right

PORT = ended(Raised(type="DistNetworkError", message="… (errno: 98 - Address already in use)."))


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


# -- what is tried again -----------------------------------------------------------------------------------------------


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
