"""What a person has done so far: attempts, hints, quiz cards, interviews and mends, in one SQLite file on this machine.

Every change is one transaction, so processes at work at the same time lose nothing. A file that is damaged is set
aside, and a new one is begun. Schema: `SCHEMA`; its version is SQLite's user_version.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

from grader.model.errors import RunError, UsageError
from grader.practice.mend.kept import COLUMNS, Mend, mend_of, row_of

VARIABLE = "RANKLINGS_DATA"
"""Names another folder for the file."""
FILE, FOLDER = "progress.sqlite3", ".ranklings"
PATIENCE = 20.0
"""Seconds that a change waits for those of other processes."""
VERSION = 3
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY, exercise TEXT NOT NULL, at TEXT NOT NULL, status TEXT NOT NULL, score REAL NOT NULL,
    max_score REAL NOT NULL, seed INTEGER NOT NULL, seconds REAL NOT NULL, digest TEXT NOT NULL, checks TEXT NOT NULL,
    hints TEXT NOT NULL DEFAULT '{{}}');
CREATE INDEX IF NOT EXISTS attempts_by_exercise ON attempts (exercise, id);
CREATE TABLE IF NOT EXISTS hints (
    id INTEGER PRIMARY KEY, exercise TEXT NOT NULL, "check" TEXT NOT NULL, level INTEGER NOT NULL, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cards (question TEXT PRIMARY KEY, card TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS reviews (id INTEGER PRIMARY KEY, question TEXT NOT NULL, review TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS interviews (id TEXT PRIMARY KEY, at TEXT NOT NULL, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS mends ({COLUMNS});
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One grade of a student's own file. `checks` maps each check to its outcome, `hints` some of them to what their
    findings hint at; `seconds` is how long it took."""

    exercise: str
    at: datetime
    status: str
    score: float
    max_score: float
    seed: int
    seconds: float
    digest: str
    checks: Mapping[str, str]
    hints: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_mark(self) -> bool:
        """Whether its points say anything; they do not where a check could not be judged."""
        return self.status != "error" and self.max_score > 0


def place(root: Path) -> Path:
    """Where the file is: in the folder that RANKLINGS_DATA names, in the repository's .ranklings/ where that is there,
    else in the user's data folder."""
    if named := os.environ.get(VARIABLE):
        return Path(named) / FILE
    if (root / FOLDER).is_dir():
        return root / FOLDER / FILE
    return Path(platformdirs.user_data_dir("ranklings", appauthor=False)) / FILE


def is_off() -> bool:
    """Whether nothing is to be kept: RANKLINGS_DATA=off, as a course's machines may set it."""
    return os.environ.get(VARIABLE) == "off"


class Store:
    """The file. `set_aside` is where a damaged one was moved to, if that happened when this one was opened."""

    def __init__(self, path: Path) -> None:
        """Opens or begins the file. Raises UsageError where there can be none."""
        self.path = path
        self.set_aside: Path | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Of two that find the same damage, the second must not set aside what the first has begun.
            with FileLock(f"{path}.lock", timeout=PATIENCE):
                self._begin_or_replace()
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from None

    # -- attempts -----------------------------------------------------------------------------------------------------

    def add(self, attempt: Attempt) -> None:
        row = {**_plain(attempt), "checks": json.dumps(dict(attempt.checks)), "hints": json.dumps(dict(attempt.hints))}
        names = ", ".join(row)
        with self._changing() as connection:
            connection.execute(f"INSERT INTO attempts ({names}) VALUES ({', '.join('?' * len(row))})", [*row.values()])

    def attempts(self, exercise: str | None = None) -> tuple[Attempt, ...]:
        """All attempts, or those at one exercise, the oldest first."""
        where, values = ("WHERE exercise = ?", [exercise]) if exercise else ("", [])
        return tuple(map(_attempt, self._rows(f"SELECT * FROM attempts {where} ORDER BY id", values)))

    def last(self, exercise: str) -> Attempt | None:
        rows = self._rows("SELECT * FROM attempts WHERE exercise = ? ORDER BY id DESC LIMIT 1", [exercise])
        return _attempt(rows[0]) if rows else None

    # -- hints --------------------------------------------------------------------------------------------------------

    def add_hint(self, exercise: str, check: str, level: int, at: datetime) -> None:
        with self._changing() as connection:
            connection.execute(
                'INSERT INTO hints (exercise, "check", level, at) VALUES (?, ?, ?, ?)',
                [exercise, check, level, at.isoformat()],
            )

    def hints(self, exercise: str, check: str | None = None) -> int:
        """The highest level taken for a check; without one, how many were taken for the exercise."""
        if check is None:
            return int(self._rows("SELECT COUNT(*) AS n FROM hints WHERE exercise = ?", [exercise])[0]["n"])
        rows = self._rows('SELECT MAX(level) AS n FROM hints WHERE exercise = ? AND "check" = ?', [exercise, check])
        return int(rows[0]["n"] or 0)

    # -- the quiz's cards ---------------------------------------------------------------------------------------------

    def cards(self) -> dict[str, str]:
        return {row["question"]: row["card"] for row in self._rows("SELECT * FROM cards")}

    def keep(self, question: str, card: str, review: str) -> None:
        """A card as it is after a review, and the review, both or neither."""
        with self._changing() as connection:
            connection.execute("INSERT OR REPLACE INTO cards (question, card) VALUES (?, ?)", [question, card])
            connection.execute("INSERT INTO reviews (question, review) VALUES (?, ?)", [question, review])

    def reviews(self) -> tuple[str, ...]:
        """All reviews, the oldest first."""
        return tuple(row["review"] for row in self._rows("SELECT review FROM reviews ORDER BY id"))

    # -- interviews ---------------------------------------------------------------------------------------------------

    def keep_interview(self, name: str, at: datetime, content: str) -> None:
        with self._changing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO interviews (id, at, content) VALUES (?, ?, ?)", [name, at.isoformat(), content]
            )

    def interviews(self) -> tuple[tuple[str, str], ...]:
        """Name and content of each, the oldest first."""
        return tuple((row["id"], row["content"]) for row in self._rows("SELECT * FROM interviews ORDER BY at, id"))

    # -- mends --------------------------------------------------------------------------------------------------------

    def keep_mend(self, mend: Mend) -> None:
        """In place of what was kept of it before."""
        row = row_of(mend)
        with self._changing() as connection:
            connection.execute(f"INSERT OR REPLACE INTO mends VALUES ({', '.join('?' * len(row))})", row)

    def mends(self, exercise: str | None = None) -> tuple[Mend, ...]:
        """All mends, or those of one exercise, the oldest first."""
        where, values = ("WHERE exercise = ?", [exercise]) if exercise else ("", [])
        rows = self._rows(f"SELECT * FROM mends {where} ORDER BY at, name", values)
        return tuple(mend_of(dict(row)) for row in rows)

    # -- the file -----------------------------------------------------------------------------------------------------

    def delete(self) -> None:
        """Forget everything."""
        for suffix in ("", "-wal", "-shm", ".lock"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").unlink()

    def _begin_or_replace(self) -> None:
        try:
            self._begin()
        except sqlite3.DatabaseError as error:
            if not _damaged(error):
                raise
            self.set_aside = self._put_aside()
            self._begin()

    def _begin(self) -> None:
        with self._open() as connection, contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")  # refused while another process begins the same file
        with self._transaction() as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise UsageError(f"{self.path} was written by a newer version of the grader; update this one.")
            for statement in SCHEMA.split(";"):
                connection.execute(statement)
            if version == 1:
                connection.execute("ALTER TABLE attempts ADD COLUMN hints TEXT NOT NULL DEFAULT '{}'")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            if connection.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("malformed")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction. Raises RunError where it cannot be made."""
        try:
            with self._transaction() as connection:
                yield connection
        except sqlite3.Error as error:
            raise RunError(f"{self.path} could not be written: {error}.") from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that begins with the right to write, so that it never fails half-way for another's."""
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        try:
            with self._open() as connection:
                return connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise RunError(f"{self.path} could not be read: {error}.") from None

    def _put_aside(self) -> Path:
        """Move the damaged file to a name that is free."""
        aside = next(
            path for number in range(1, 10_000) if not (path := self.path.with_suffix(f".damaged-{number}")).exists()
        )
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(OSError):
                Path(f"{self.path}{suffix}").unlink()
        os.replace(self.path, aside)
        return aside

    def _unusable(self, error: Exception) -> UsageError:
        reason = getattr(error, "strerror", None) or str(error)
        return UsageError(f"{self.path} cannot be used ({reason}); {VARIABLE} names another folder for it.")


def _damaged(error: sqlite3.DatabaseError) -> bool:
    return any(mark in str(error) for mark in ("not a database", "malformed", "no such column", "has no column"))


def _plain(attempt: Attempt) -> dict[str, Any]:
    names = ("exercise", "status", "score", "max_score", "seed", "seconds", "digest")
    return {"at": attempt.at.isoformat(), **{name: getattr(attempt, name) for name in names}}


def _attempt(row: sqlite3.Row) -> Attempt:
    given = {name: row[name] for name in row.keys() if name not in ("id", "at", "checks", "hints")}  # noqa: SIM118
    read = {name: json.loads(row[name]) for name in ("checks", "hints")}
    return Attempt(at=datetime.fromisoformat(row["at"]), **read, **given)
