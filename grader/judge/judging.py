"""What all checks of an exercise say of runs: those that are there, and those that come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.judge.engine import judge_with
from grader.judge.panel import Panel
from grader.model import Case, Exercise, Finding, Outcome, Run, Submission, Verdict
from grader.records import recording

UNUSABLE = "needs: a file that can be graded"
"""What the other checks wait for where nothing can be judged: none of them has to do with the first."""


def judge(exercise: Exercise, submission: Submission, runs: Sequence[Run]) -> tuple[Verdict, ...]:
    """The verdict of every check, in order. The first run may be the import of the file, judged before all else."""
    if faults := unusable(submission, runs):
        return _all_blocked(exercise, faults)
    by_case = {run.case.id: run for run in runs}
    return judge_live(exercise, lambda case: recording.run_for(by_case, case))


def unusable(submission: Submission, runs: Sequence[Run]) -> tuple[Finding, ...]:
    """Why no check can be judged: the file does not compile, cannot be imported or lacks what is asked for."""
    if submission.problem is not None:
        return (submission.problem,)
    imported = next((run for run in runs if not run.case.probe), None)
    return imported.diagnosis.findings if imported is not None and imported.diagnosis is not None else ()


def _all_blocked(exercise: Exercise, findings: tuple[Finding, ...]) -> tuple[Verdict, ...]:
    first, *rest = exercise.checks
    message = "; ".join(finding.sentence() for finding in findings)
    return (
        Verdict(check=first, outcome=Outcome.FAILED, findings=findings, message=message),
        *(Verdict(check=check, outcome=Outcome.BLOCKED, message=UNUSABLE) for check in rest),
    )


def judge_live(
    exercise: Exercise,
    run_case: Callable[[Case], Run],
    tell: Callable[[Verdict], None] | None = None,
    *,
    only: bool = False,
) -> tuple[Verdict, ...]:
    """The same while the cases still run: `run_case` waits for one, `tell` hears each verdict as it comes. With `only`
    no test is run but those of the exercise's checks, of which some were left out."""
    return judge_with(Panel(exercise, run_case, tell), [check.id for check in exercise.checks] if only else [])
