"""A course's list of students as Canvas, Moodle or a hand wrote it: CSV, in any of the usual dialects. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.model.errors import UsageError

CANVAS = ("Student", "LastName", "FirstName", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account")
MOODLE = ("First name", "Last name", "Surname", "ID number", "Institution", "Department", "Email address", "Username")
EXPORTED = "Last downloaded from this course"
"""Moodle's last column. With it, the import refuses to overwrite a grade that was given since."""

KEYS = re.compile(
    r"(?:student|student ?id|id|sis[ _]user[ _]id|sis[ _]login[ _]id|integration id|id ?number"
    r"|matriculation(?: number)?|e-?mail(?: address)?|user ?name|login|login ?id|user"
    r"|full name|identifier|e-mail-adresse|id-nummer|anmeldename|matrikelnummer"
    r"|vollständiger name|github(?:[ _](?:username|user|login|id))?|key)",
    re.IGNORECASE,
)
"""Columns by which a student may be known, and those of a German Moodle, whose exports follow its language. Moodle
calls downloaded hand-ins by the full name, or by its grading worksheet's identifier where marking is blind."""
NAMES = (("first name", "vorname"), ("last name", "surname", "nachname"))
"""The columns that make a full name in Moodle's export of grades."""

NUMBER = re.compile(r"\s*[+-]?(?:\d+(?:[.,]\d+)*|[.,]\d+)(?:[eE][+-]?\d+)?\s*%?\s*")
ACTIVE = tuple("=+-@\t\r\n＝＋－＠")
"""With these a spreadsheet begins a formula (OWASP, "CSV Injection")."""

Row = list[str]


@dataclass(frozen=True, slots=True)
class Roster:
    """The header and the rows of a list of students, each row as wide as the header."""

    header: Row
    rows: tuple[Row, ...]
    delimiter: str = ","

    @property
    def is_canvas(self) -> bool:
        return any(name in self.header[:2] for name in ("Student", "LastName")) and "ID" in self.header[:3]

    @property
    def keys(self) -> list[int]:
        """The columns by which a student may be known."""
        return [index for index, name in enumerate(self.header) if KEYS.fullmatch(name)]

    def students(self) -> Iterator[tuple[int, Row]]:
        """The rows that are students, with their places: not Canvas' rows of points and of posting policies."""
        for place, row in enumerate(self.rows):
            if any(row) and not (self.is_canvas and is_no_student(row)):
                yield place, row

    def places(self) -> dict[str, set[int]]:
        """The places of students by everything that they may be known by, in lower case."""
        if not self.keys:
            raise UsageError(
                "The roster has no column that tells who a student is, such as SIS Login ID, Email address, ID number "
                f"or username; it has {', '.join(self.header[:8])}."
            )
        found: dict[str, set[int]] = {}
        for place, row in self.students():
            for key in (*(row[index] for index in self.keys), self._full_name(row)):
                if normal(key):
                    found.setdefault(normal(key), set()).add(place)
        return found

    def _full_name(self, row: Row) -> str:
        """First and last name; empty where the columns for them are missing."""
        header = [name.lower() for name in self.header]
        parts = [next((row[header.index(name)].strip() for name in names if name in header), "") for names in NAMES]
        return " ".join(parts) if all(parts) else ""


def normal(key: str) -> str:
    """A key as it is compared: without blanks around it, in lower case."""
    return key.strip().casefold()


def is_no_student(row: Sequence[str]) -> bool:
    """Whether a row of Canvas' tells of the assignments: the points possible, or "Manual Posting"."""
    return "Points Possible" in row[0] or all(re.fullmatch(r"\s*(Muted|Manual Posting.*)?\s*", cell) for cell in row)


def read(text: str) -> Roster:
    """The roster in a CSV file's text. Commas, semicolons and tabs part the cells; which, the header tells.

    Raises UsageError where there is no header or a row is wider than it.
    """
    text = text.removeprefix("\ufeff")
    first = text.lstrip("\r\n").partition("\n")[0]
    delimiter = max(",;\t", key=lambda mark: (_width(first, mark), mark == ","))
    try:
        lines = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    except csv.Error as error:
        raise UsageError(f"The roster is no CSV: {error}.") from None
    if not lines:
        raise UsageError("The roster is empty: its first row must name the columns.")
    header = [name.strip() for name in lines[0]]
    rows = tuple(_widened(row, len(header), number) for number, row in enumerate(lines[1:], 2))
    return Roster(header, rows, delimiter)


def _width(line: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=delimiter), []))
    except csv.Error:
        return 0


def _widened(row: Row, width: int, number: int) -> Row:
    if len(row) > width and any(cell.strip() for cell in row[width:]):
        raise UsageError(
            f"Row {number} of the roster has {len(row)} cells and its header {width}; quote what has commas."
        )
    return [*row[:width], *[""] * (width - len(row))]


def write(rows: Sequence[Sequence[str]], delimiter: str = ",") -> str:
    """Rows as CSV (RFC 4180) in which no cell is a formula."""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerows([[*map(defused, row)] for row in rows])
    return text.getvalue()


def defused(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe goes before what looks like one. Numbers stay
    numbers, and a dash alone, which means no grade, stays one."""
    cell = cell.replace("\0", "")
    begins = cell.lstrip(" \u00a0").startswith(ACTIVE) or cell.startswith(ACTIVE)
    return f"'{cell}" if begins and not NUMBER.fullmatch(cell) and cell.strip() != "-" else cell
