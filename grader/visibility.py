"""What a student may see of a report: everything but the checks that their author withholds. Pure."""

from __future__ import annotations

from dataclasses import replace

from grader.model import Report, Result, Verdict


def for_student(report: Report) -> Report:
    """The report without what its author withholds: checks that are not visible, and the runs that only they look at.
    A note says how much is missing. Where one of them could not be judged, this has no mark either."""
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
        unjudged=report.status == "error",
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
