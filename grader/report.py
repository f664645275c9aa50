"""Everything about one grade as one value, and the choices that belong to it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

from grader.model import Exercise, Outcome, Report, Result, Run, Submission, Verdict


def summarise(
    exercise: Exercise,
    submission: Submission,
    runs: Sequence[Run],
    verdicts: Sequence[Verdict],
    *,
    seed: int,
    device: str,
    sandbox: str,
    seconds: float,
) -> Report:
    """The report of a grade. `seconds` is wall time."""
    return Report(
        exercise=exercise,
        submission=submission,
        verdicts=tuple(verdicts),
        runs=tuple(runs),
        seed=seed,
        device=device,
        sandbox=sandbox,
        seconds=seconds,
        torch_version=torch_version(),
        notes=tuple(f"{run.case.id} was run a second time, because {run.retried}." for run in runs if run.retried),
    )


def torch_version() -> str:
    """The installed torch, without importing it."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def for_student(report: Report) -> Report:
    """The report without what its author withholds: checks that are not visible, and the runs that only they look at.
    A note says how much is missing."""
    withheld = [verdict.check for verdict in report.verdicts if verdict.check.visibility != "visible"]
    if not withheld:
        return report
    worth = sum(check.points for check in withheld)
    count = f"{len(withheld)} checks of your course are" if len(withheld) > 1 else "1 check of your course is"
    exercise = report.exercise
    return replace(
        report,
        exercise=replace(
            exercise,
            checks=tuple(check for check in exercise.checks if check.visibility == "visible"),
            cases=tuple(case for case in exercise.cases if case.visibility == "visible"),
        ),
        verdicts=tuple(verdict for verdict in report.verdicts if verdict.check.visibility == "visible"),
        runs=tuple(run for run in report.runs if run.case.visibility == "visible"),
        notes=(*report.notes, f"{count} judged too and not shown here, worth {worth:g} points."),
    )


def result_for_student(result: Result) -> Result:
    """The same for all exercises of a result. What is shown of one is worth its part of the weight."""
    shown = [(entry, for_student(entry.report)) for entry in result.entries]
    return replace(
        result,
        entries=tuple(
            entry if report is entry.report else replace(entry, report=report, weight=entry.scale * report.max_score)
            for entry, report in shown
        ),
    )


def withheld_of(report: Report) -> tuple[Verdict, ...]:
    """The verdicts that a student does not see here."""
    return tuple(verdict for verdict in report.verdicts if verdict.check.visibility != "visible")


def not_graded(exercise: Exercise, submission: Submission, reason: str, *, seed: int, device: str) -> Report:
    """The report of an exercise that could not be graded through no fault of the student: no check counts."""
    verdicts = [Verdict(check=check, outcome=Outcome.BROKEN, message=reason) for check in exercise.checks]
    return summarise(exercise, submission, (), verdicts, seed=seed, device=device, sandbox="", seconds=0.0)
