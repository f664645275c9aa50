"""A page for each person of a batch, as `grade --html` writes it: what this person may see, and no more."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from grader import catalog, files
from grader.batch.row import Row
from grader.grading.report import not_graded
from grader.model import Entry, Late, Report, Result, Submission
from grader.records.reading import report_of
from grader.render import html
from grader.visibility import result_for_student

WAITS = "This exercise could not be graded yet."


def write(rows: Iterable[Row], folder: Path, root: Path, title: str) -> int:
    """Write the pages; gives how many. Each is named by whom it is of, where that can be a file's name. Raises RunError
    where one cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    people = _by_person(rows)
    for who, own in people.items():
        result = Result(title=title, entries=tuple(_entry(row, root) for row in own))
        files.write(folder / f"{file_name(who)}.html", html.render(result_for_student(result)))
    return len(people)


def _by_person(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The hand-ins that count, person by person."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.counts:
            found.setdefault(row.who, []).append(row)
    return found


def file_name(who: str) -> str:
    """What a person's file is called. Two people never share one: where a name had to be changed, a digest of it
    follows."""
    plain = re.sub(r"[^\w.@+-]+", "_", who).lstrip(".-")[:80]
    return plain if plain == who else f"{plain}-{hashlib.sha256(who.encode()).hexdigest()[:8]}"


def _entry(row: Row, root: Path) -> Entry:
    late = Late(kept=row.kept, told=row.late) if row.late else None
    return Entry(report=_report(row, root), weight=row.weight, late=late)


def _report(row: Row, root: Path) -> Report:
    """The report of a hand-in, or one that says that there is none yet: then the page has no mark."""
    if (data := row.report()) is not None:
        return report_of(dict(data))
    exercise = catalog.load(row.exercise, root)
    return not_graded(exercise, Submission.of(Path(exercise.file), b""), WAITS, seed=row.seed, device="cpu")
