"""Results of many students as one CSV file: for Canvas' and Moodle's gradebooks, and a plain one. Pure.

Sources: Canvas, "How do I import grades in the Gradebook?" and `gradebook_importer.rb` (the columns and rows it reads);
MoodleDocs, "Grade import" and `load_data.php` of its CSV import (an empty cell clears a grade); OWASP, "CSV Injection".

A student is found in the roster by whatever column holds the key: SIS login, email, ID number, username. Nobody's
grade is guessed: a key that nobody or several have is told, and two results for one student are refused. A result
whose status is `error` is our fault and gives no grade, not 0. Cells without a new grade stay as the roster has them
in Canvas' file, and their rows stay out of Moodle's, where an empty cell would take an earlier grade away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from grader.course.roster import EXPORTED, MOODLE, Roster, Row, normal, read, write
from grader.model import Entry, Outcome, Report, Result
from grader.model.errors import UsageError
from grader.scoring import finite
from grader.visibility import for_student

FEEDBACK = "Feedback comments"
WHO, FACTS = ("student", "exercise"), ("total", "max", "late", "status", "digest")
"""The plain file's columns before those of the checks, and behind them."""

Handed = tuple[str, Result]
"""The key of a student, and what his hand-in came to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradebook:
    """A file, and who is not in it as one would expect: keys that no student has, students without a result, and keys
    of results that are no grade because the grader or an exercise was at fault."""

    text: str
    unknown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    ungraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Matched:
    """The results by the place of their student in the roster."""

    roster: Roster
    by_place: dict[int, Handed]
    unknown: tuple[str, ...]

    def gradebook(self, text: str) -> Gradebook:
        missing = (_who(row) for place, row in self.roster.students() if place not in self.by_place)
        ungraded = tuple(key for key, result in self.by_place.values() if not is_grade(result))
        return Gradebook(text=text, unknown=self.unknown, missing=tuple(missing), ungraded=ungraded)


def is_grade(result: Result) -> bool:
    """Whether a result may be entered as a grade."""
    return result.mark is not None


def _match(results: Iterable[Handed], roster: Roster) -> _Matched:
    known = roster.places()
    by_place: dict[int, Handed] = {}
    unknown: list[str] = []
    for key, result in _once(results):
        places = known.get(normal(key), set())
        if len(places) > 1:
            raise UsageError(f"{key!r} is the key of {len(places)} students of the roster. Use one that is unique.")
        for place in places:
            if place in by_place:
                raise UsageError(f"{by_place[place][0]!r} and {key!r} are the same student of the roster. Remove one.")
            by_place[place] = key, result
        unknown += [] if places else [key]
    return _Matched(roster, by_place, tuple(unknown))


def _once(results: Iterable[Handed]) -> Iterator[Handed]:
    """The results, none twice. Raises UsageError where a key has two."""
    seen: dict[str, str] = {}
    for key, result in results:
        if normal(key) in seen:
            raise UsageError(f"There are two results for {key!r}. Keep the one that counts.")
        seen[normal(key)] = key
        yield key, result


def _who(row: Row) -> str:
    return next((cell.strip() for cell in row if cell.strip()), "")


# ── Canvas ──


def canvas(results: Iterable[Handed], roster: str, item: str) -> Gradebook:
    """Canvas' own export with the column of the assignment `item` filled in, for its import.

    The column is the one whose title is `item`, with Canvas' number behind it or without, or a new one at the end. All
    other columns and rows stay. Raises UsageError where `roster` is no such export, or where the assignment is worth
    other points there.
    """
    known = read(roster)
    if not known.is_canvas:
        raise UsageError(
            "The roster is no export of Canvas' gradebook: it must begin with Student (or LastName) and ID."
        )
    matched = _match(results, known)
    column = _column(known, item)
    grades = {place: _grade(result) for place, (_, result) in matched.by_place.items() if is_grade(result)}
    rows = [_filled(row, column, grades.get(place)) for place, row in enumerate(known.rows)]
    _points_possible(rows, column, _worth(matched.by_place.values()), item)
    header = known.header if column < len(known.header) else [*known.header, item]
    return matched.gradebook(write([header, *rows], known.delimiter))


def _column(roster: Roster, item: str) -> int:
    """The place of the assignment's column, or the place behind the last."""
    title = re.compile(rf"{re.escape(item.strip())}(?: \(\d+\))?")
    found = [index for index, name in enumerate(roster.header) if title.fullmatch(name)]
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} columns of the roster are called {item!r}. Give the number too: 'TITLE (1234)'."
        )
    return found[0] if found else len(roster.header)


def _filled(row: Row, column: int, cell: str | None) -> Row:
    """A row with a cell set, or as it was where there is nothing to set."""
    wide = [*row, *[""] * (column + 1 - len(row))]
    return wide if cell is None else [*wide[:column], cell, *wide[column + 1 :]]


def _points_possible(rows: list[Row], column: int, most: str, item: str) -> None:
    """Writes what the assignment is worth into Canvas' row for that, or holds it against what stands there."""
    row = next((row for row in rows if "Points Possible" in row[0]), None)
    if row is None:
        row = ["    Points Possible", *[""] * (max(map(len, rows), default=column + 1) - 1)]
        rows.insert(0, row)
    there = row[column].strip()
    if there and most and not _same(there, most):
        raise UsageError(
            f"{item!r} has {there!r} as its points in Canvas, and is worth {most} here. Make them the same, or the "
            "grades would be wrong."
        )
    row[column] = there or most


def _same(there: str, most: str) -> bool:
    try:
        return abs(float(there.replace(",", ".")) - float(most)) < 0.005
    except ValueError:
        return False


def _worth(handed: Iterable[Handed]) -> str:
    """What the hand-ins are worth, which must be the same for all."""
    worth = {_cell(result.points) for _, result in handed}
    if len(worth) > 1:
        raise UsageError(f"The results are not of one assignment: they are worth {' and '.join(sorted(worth))} points.")
    return next(iter(worth), "")


def _grade(result: Result) -> str:
    """The points of the whole assignment that were earned: what is not counted leaves its points to the rest."""
    return _cell(result.points * result.score / result.max_score)


def _cell(value: float) -> str:
    """A number as gradebooks have it: at most two decimals, never an exponent."""
    text = f"{finite(value):.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# ── Moodle ──


def moodle(results: Iterable[Handed], roster: str, item: str) -> Gradebook:
    """A file for Moodle's grade import: who the student is, as its export has it, the grade, and feedback.

    Any list of students will do that has a column which Moodle knows too. Only students with a grade are in it. Map
    an identifying column to the user, `item` to the grade item and "Feedback comments" to its feedback. Raises
    UsageError where `roster` tells of no student who he is, or is Canvas'.
    """
    known = read(roster)
    if known.is_canvas:
        raise UsageError("The roster is an export of Canvas, no export of Moodle's grades.")
    matched = _match(results, known)
    _worth(matched.by_place.values())
    columns = [index for index, name in enumerate(known.header) if name in MOODLE or index in known.keys]
    last = [index for index, name in enumerate(known.header) if name == EXPORTED]
    names = [known.header[index] for index in columns]
    rows = [[*names, item, FEEDBACK, *(known.header[index] for index in last)]]
    for place, row in known.students():
        _, result = matched.by_place.get(place, ("", None))
        if result and is_grade(result):
            told = [_grade(result), feedback(result)]
            rows.append([*(row[index] for index in columns), *told, *(row[index] for index in last)])
    return matched.gradebook(write(rows, known.delimiter))


def feedback(result: Result) -> str:
    """What a student may read about his grade, on one line: authors' words only, nothing of checks that are hidden."""
    parts = []
    for entry in result.entries:
        report = for_student(entry.report)
        name = f"{report.exercise.title}: " if len(result.entries) > 1 else ""
        parts.append(f"{name}{'; '.join(_told(report))}.")
        parts += [entry.late.told] if entry.late else []
    return " ".join(" ".join(parts).split())


def _told(report: Report) -> Iterator[str]:
    named = {
        "passed": [Outcome.PASSED],
        "failed": [Outcome.FAILED],
        "not judged": [Outcome.BLOCKED, Outcome.BROKEN],
        "not counted": [Outcome.SKIPPED],
    }
    for name, outcomes in named.items():
        titles = [verdict.check.title for verdict in report.verdicts if verdict.outcome in outcomes]
        if titles:
            yield f"{name}: {', '.join(titles)}"


# ── plain ──


def plain(results: Sequence[Handed], roster: str = "") -> Gradebook:
    """One row a student and exercise, for the staff: all checks, hidden ones too, and what they add up to.

    With a roster the rows come in its order, unknown keys last, and students without a result are told. Checks that
    were not judged have an empty cell, as has the total of an exercise without a mark. No two columns have one name.
    """
    matched = _match(results, read(roster)) if roster else None
    handed = _ordered(matched, list(_once(results)))
    checks = list(dict.fromkeys(v.check.id for _, r in handed for e in r.entries for v in e.report.verdicts))
    rows = [[*WHO, *map(_column_of, checks), *FACTS]]
    rows += [_plain_row(key, entry, checks) for key, result in handed for entry in result.entries]
    book = matched.gradebook(write(rows)) if matched else Gradebook(text=write(rows))
    return replace(book, ungraded=tuple(key for key, result in handed if not is_grade(result)))


def _column_of(check: str) -> str:
    """The title of a check's column: its id, or `check.total` where another column is called so. No id has a dot."""
    return f"check.{check}" if check in (*WHO, *FACTS) else check


def _ordered(matched: _Matched | None, handed: list[Handed]) -> list[Handed]:
    if matched is None:
        return handed
    known = [matched.by_place[place] for place, _ in matched.roster.students() if place in matched.by_place]
    return [*known, *((key, result) for key, result in handed if key in matched.unknown)]


def _plain_row(key: str, entry: Entry, checks: Sequence[str]) -> Row:
    report = entry.report
    scores = {v.check.id: _cell(v.score * entry.scale) for v in report.verdicts if v.outcome.judged}
    total = "" if entry.mark is None else _cell(entry.mark)
    late = entry.late.told if entry.late else ""
    facts = [total, _cell(entry.max_score), late, report.status, report.submission.digest]
    return [key, report.exercise.name, *(scores.get(check, "") for check in checks), *facts]
