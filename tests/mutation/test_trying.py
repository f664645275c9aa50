"""How mutants are tried: with what patience, how often, and by which checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader import catalog
from grader.authoring.mutation.generate import mutants
from grader.authoring.mutation.runner import (
    FACTOR,
    LEAST_SECONDS,
    MutantOutcome,
    MutantRunner,
    TriedMutant,
    judge_partly,
)
from grader.authoring.mutation.score import Score, Subject, attack, load
from grader.model import Case, Deadlocked, Diagnosis, Finding, Outcome, Run, Submission, TimedOut, Wait
from grader.model.errors import RunError
from tests import small
from tests.fakes import FakeSession, right
from tests.mutation.excuses import CLONES, REDUCES


def test_a_check_waits_for_all_the_runs_that_it_wants(root: Path) -> None:
    """It is skipped until then, except that a run in which a rank did not finish fails it at once."""
    exercise = catalog.load(small.NAME, root)
    submission = Submission(path=Path("total.py"), source=b"", digest="")
    one = torch.full((4,), 1.0, dtype=torch.float64)

    def judged(*runs: object) -> list[Outcome]:
        return [verdict.outcome for verdict in judge_partly(exercise, submission, runs)]

    good = small.sum_run(1, one)
    assert judged(good) == [Outcome.SKIPPED, Outcome.SKIPPED, Outcome.SKIPPED]
    assert judged(small.bad_run(), good) == [Outcome.SKIPPED, Outcome.SKIPPED, Outcome.FAILED]
    waits = Deadlocked(wait=Wait(operation="all_reduce"))
    stuck = Diagnosis(kind="deadlock", ranks=(0,), findings=(Finding(subject="waits"),))
    run = replace(small.sum_run(1, None, ending=waits), diagnosis=stuck)
    assert judged(run) == [Outcome.FAILED, Outcome.BLOCKED, Outcome.SKIPPED]


class Student:
    """What a source does is in its text: it may loop for ever, and `seconds` are what a run of the solution takes."""

    def __init__(self) -> None:
        self.seconds = 0.1

    def __call__(self, submission: Submission, case: Case) -> Run:
        source = submission.source.decode()
        if "unlucky" not in source:
            raise RunError("no memory")
        loops = "while False" not in source
        run = replace(right(submission, case), seconds=case.deadline if loops else self.seconds)
        if not loops or case.name != "sum":
            return run
        stopped = tuple(replace(record, ending=TimedOut()) for record in run.ranks)
        return replace(run, ranks=stopped, diagnosis=Diagnosis(kind="timeout", ranks=(0,), findings=()))


SOLUTION = "while False:\n    unlucky()\nwork()\n"


@pytest.fixture
def student() -> Student:
    return Student()


@pytest.fixture
def session(student: Student) -> FakeSession:
    return FakeSession(otherwise=student)


@pytest.fixture
def runner(root: Path, session: FakeSession) -> MutantRunner:
    runner = MutantRunner(session, catalog.load(small.NAME, root), Path("total.py"), 3)
    assert {verdict.outcome for verdict in runner.control(SOLUTION.encode())} == {Outcome.PASSED}
    session.cases.clear()
    return runner


def outcome_of(runner: MutantRunner, part: str) -> TriedMutant:
    chosen = [mutant for mutant in mutants(SOLUTION) if part in mutant.identity]
    (result,) = runner.try_all(chosen, lambda mutant: 2, lambda result: None)
    return result


# -- how mutants are tried ---------------------------------------------------------------------------------------------


def test_a_survivor_is_tried_with_two_seeds(runner: MutantRunner, session: FakeSession) -> None:
    """All cases of both, the import first."""
    assert outcome_of(runner, "work()").outcome is MutantOutcome.SURVIVED
    names = [case.name for case in session.cases]
    assert sorted(names) == ["bad", "bad", "import", "import", "sum", "sum", "sum", "sum"] and names[0] == "import"
    assert len({case.seed for case in session.cases if case.id == "sum[2]"}) == 2


def test_an_endless_loop_is_stopped_early(runner: MutantRunner, session: FakeSession) -> None:
    """Long before the case's deadline, and no other world size is run."""
    result = outcome_of(runner, "False -> True")
    assert (result.outcome, result.by) == (MutantOutcome.KILLED, "sums")
    (first, control) = [case for case in session.cases if case.name == "sum"]
    assert first == control and first.deadline == pytest.approx(LEAST_SECONDS + FACTOR * 0.1)


def test_a_time_out_on_a_machine_that_became_slow_does_not_count(
    runner: MutantRunner, session: FakeSession, student: Student
) -> None:
    """The solution is run right after it; where it is slow too, the mutant gets more time."""
    student.seconds = 5.0
    assert outcome_of(runner, "False -> True").outcome is MutantOutcome.KILLED
    deadlines = [case.deadline for case in session.cases if case.id == "sum[1]"]
    assert deadlines[0] == deadlines[1] < 15 < deadlines[-1] == 20


def test_a_run_that_the_grader_cannot_make_is_no_kill(runner: MutantRunner) -> None:
    """It is told as our own fault."""
    result = outcome_of(runner, "unlucky()")
    assert (result.outcome, result.message) == (MutantOutcome.BROKEN, "no memory")


def selected(subject: Subject, *identities: str) -> Score:
    return attack(subject, seed=5, select=lambda mutant: mutant.identity in identities)


# -- on real ranks -----------------------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
def test_mutants_are_killed_by_the_checks_of_the_small_exercise(root: Path) -> None:
    """Each is tried on real ranks: a wrong sum, a refusal that is gone, a NameError; and one that no check sees
    survives two seeds. A solution that fails proves nothing, so nothing is tried."""
    solution = root / "reference" / small.NAME / "total.py"
    unseen = "    dist.all_reduce(result)\n    dist.barrier()\n"
    solution.write_text(solution.read_text().replace("    dist.all_reduce(result)\n", unseen))
    raises = 'drop-statement | total | raise TypeError("value must be a tensor")'
    barrier = "drop-statement | total | dist.barrier()"
    score = selected(load(small.NAME, root), REDUCES, CLONES, raises, barrier)
    fates = {result.mutant.identity: (result.outcome, result.by, result.seed) for result in score.results}
    assert fates == {
        raises: (MutantOutcome.KILLED, "refuses", 5),
        CLONES: (MutantOutcome.KILLED, "sums", 5),
        REDUCES: (MutantOutcome.KILLED, "sums", 5),
        barrier: (MutantOutcome.SURVIVED, "", 6),
    }
    solution.write_text(solution.read_text().replace("return result", "return result + 1"))
    score = selected(load(small.NAME, root), REDUCES)
    assert score.results == () and "the solution itself: failed sums" in score.breaches()[0]
