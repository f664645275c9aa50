"""What a student may see of a report: everything but the checks that their author withholds. Pure."""

from __future__ import annotations

from dataclasses import replace
from math import isclose

from grader.model import Report, Result, Verdict


def for_student(report: Report, scale: float = 1.0) -> Report:
    """The report without what its author withholds: checks that are not visible, and the runs that only they look at.
    A note says how much is missing, in points of which each is worth `scale` in the assignment. Where one of them could
    not be judged, this has no mark either."""
    withheld = withheld_of(report)
    if not withheld:
        return report
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
        unjudged=report.status == "error",
        notes=(*report.notes, f"{count} judged too and not shown here, worth {_worth(report, scale)}."),
    )


def _worth(report: Report, scale: float) -> str:
    """What the withheld checks are worth: in an assignment, which has points of its own, in both."""
    own = sum(verdict.check.points for verdict in withheld_of(report) if verdict.outcome.counted)
    if isclose(scale, 1):
        return f"{own:g} points"
    return f"{round(own * scale, 2):g} points of the assignment, {own:g} of the exercise's {report.max_score:g}"


def result_for_student(result: Result) -> Result:
    """The same for all exercises of a result. What is shown of one is worth its part of the weight."""
    shown = [(entry, for_student(entry.report, entry.scale)) for entry in result.entries]
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
