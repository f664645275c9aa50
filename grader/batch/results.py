"""What each person's hand-in came to, as `grade --assignment` would have given it: for gradebooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from grader import catalog
from grader.batch.ledger import Ledger, content_of
from grader.batch.row import Row, Standing
from grader.grading.report import not_graded
from grader.model import Entry, Late, Report, Result, Submission
from grader.model.errors import UsageError
from grader.records import reading

WAITING = {
    Standing.EXPECTED: "It was not graded yet.",
    Standing.BROKEN: "The grader could not judge it.",
    Standing.QUARANTINED: "It ended the grader's own workers twice; somebody has to look at it.",
}


def results(ledger: Ledger) -> Iterator[tuple[str, Result]]:
    """Everybody with all exercises of the assignment. One that has no verdict has no mark, and so has the whole. The
    recorded runs are left out, so that all of a course fits into memory. Raises UsageError for a report that is none.
    """
    content = content_of(ledger.plan())
    people: dict[str, list[Entry]] = {}
    for row in ledger.rows():
        if row.counts:
            late = Late(kept=row.kept, told=row.late) if row.late or row.kept != 1 else None
            entry = Entry(report=_report(row, Path(content["root"])), weight=row.weight, late=late)
            people.setdefault(row.who, []).append(entry)
    for who, entries in people.items():
        yield who, Result(title=content["title"], entries=tuple(entries))


def _report(row: Row, root: Path) -> Report:
    told = row.report()
    if row.standing is not Standing.FINAL and not (told and row.standing is Standing.BROKEN):
        exercise = catalog.load(row.exercise, root)
        nothing = Submission.of(Path(exercise.file), b"")
        return not_graded(exercise, nothing, WAITING[row.standing], seed=row.seed, device="auto")
    try:
        report = reading.report_of(dict(told or {}))
    except (LookupError, TypeError, ValueError) as error:
        raise UsageError(f"{row.report_path} is no report ({error}); grade {row.who} --again all.") from None
    return replace(report, runs=())
