"""The ledger of a batch: which units there are, what became of each, and whose hand-ins they grade. One SQLite file,
written by one driver; reports, runs, logs and hand-ins lie in a `Store` beside it.

The rollback journal is used and not a write-ahead log: that one needs memory which all readers share, and a batch's
folder may be shared over a network (SQLite, "Write-Ahead Logging", section 1). A commit is synced (`synchronous=FULL`).
Readers fetch a page at a time, so that none of them keeps the driver from writing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from grader.batch.row import KEY, Row, Standing, Summary
from grader.batch.store import Store
from grader.model.errors import RunError, UsageError

FILE, OBJECTS, SHARDS = "ledger.sqlite3", "objects", "shards"
VERSION = 2
PATIENCE = 60.0
"""Seconds that the driver waits for a reader's page, and a reader for a commit."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (files TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (path TEXT PRIMARY KEY, stat TEXT NOT NULL, key TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS units (
    unit TEXT PRIMARY KEY, exercise TEXT NOT NULL, files TEXT NOT NULL, run_key TEXT NOT NULL, seed INTEGER NOT NULL,
    standing TEXT NOT NULL DEFAULT 'expected', status TEXT NOT NULL DEFAULT '', report TEXT NOT NULL DEFAULT '',
    runs TEXT NOT NULL DEFAULT '', runs_bytes INTEGER NOT NULL DEFAULT 0, score REAL, max_score REAL, mark REAL,
    checks TEXT NOT NULL DEFAULT '{}', seconds REAL NOT NULL DEFAULT 0, busy REAL NOT NULL DEFAULT 0,
    cpu REAL NOT NULL DEFAULT 0, losses INTEGER NOT NULL DEFAULT 0, unstable INTEGER NOT NULL DEFAULT 0,
    flipped TEXT NOT NULL DEFAULT '[]', sentence TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS units_by_run ON units (run_key) WHERE runs != '';
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY, unit TEXT NOT NULL, kind TEXT NOT NULL, slot TEXT NOT NULL, outcome TEXT NOT NULL,
    sentence TEXT NOT NULL, report TEXT NOT NULL, log TEXT NOT NULL, seconds REAL NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS attempts_by_unit ON attempts (unit);
CREATE INDEX IF NOT EXISTS attempts_by_time ON attempts (at);
CREATE TABLE IF NOT EXISTS kinds (kind TEXT PRIMARY KEY, summary TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS summaries (report TEXT PRIMARY KEY, kind TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS plans (
    plan INTEGER PRIMARY KEY, digest TEXT NOT NULL, seed INTEGER NOT NULL, at REAL NOT NULL, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
    plan INTEGER NOT NULL, exercise TEXT NOT NULL, who TEXT NOT NULL, attempt INTEGER NOT NULL, unit TEXT NOT NULL,
    weight REAL NOT NULL, kept REAL NOT NULL, late TEXT NOT NULL, submitted_at TEXT, untouched INTEGER NOT NULL,
    PRIMARY KEY (plan, exercise, who, attempt)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_by_unit ON entries (plan, unit);
CREATE TABLE IF NOT EXISTS published (
    exercise TEXT NOT NULL, who TEXT NOT NULL, unit TEXT NOT NULL, mark REAL, kept REAL NOT NULL, weight REAL NOT NULL,
    plan INTEGER NOT NULL, checks TEXT NOT NULL, PRIMARY KEY (exercise, who)) WITHOUT ROWID;
"""
PAGE = f"""
SELECT e.exercise, e.who, e.attempt, e.weight, e.kept, e.late, e.submitted_at, e.untouched, u.unit, u.standing, u.seed,
    u.unstable, u.flipped, u.seconds, u.busy, u.cpu, u.report, u.runs, u.mark, u.max_score, f.content,
    k.summary, c.summary
FROM entries e JOIN units u ON u.unit = e.unit JOIN files f ON f.files = u.files
    LEFT JOIN summaries s ON s.report = u.report LEFT JOIN kinds k ON k.kind = s.kind
    LEFT JOIN kinds c ON c.kind = substr(k.summary, 1, {KEY})
WHERE e.plan = ? AND (e.exercise, e.who, e.attempt) > (?, ?, ?) ORDER BY e.exercise, e.who, e.attempt LIMIT 500
"""


class _Entry(NamedTuple):
    """A row of PAGE."""

    exercise: str
    who: str
    attempt: int
    weight: float
    kept: float
    late: str
    submitted_at: str | None
    untouched: int
    unit: str
    standing: str
    seed: int
    unstable: int
    flipped: str
    seconds: float
    busy: float
    cpu: float
    report: str
    runs: str
    mark: float | None
    max_score: float | None
    content: str
    own: str | None
    common: str | None


class Ledger:
    """The ledger in a batch's folder, or the one of a shard of it. `store` is where its keys lead to."""

    def __init__(self, folder: Path, *, shard: str = "", new: bool = False) -> None:
        """Opens the ledger; a `new` one is begun where there is none. Raises UsageError where there is none, or one of
        a newer version, or something else."""
        self.folder = folder
        self.path = folder / SHARDS / f"{shard}.sqlite3" if shard else folder / FILE
        self.store = Store(folder / OBJECTS)
        if not new and not self.path.is_file():
            raise UsageError(_no_batch(folder))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connect(str(self.path))
        except (sqlite3.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"{self.path} cannot be used as the ledger of a batch: {reason}.") from None

    @classmethod
    def rehearsal(cls, folder: Path, scratch: Path, *, shard: str = "") -> Ledger:
        """A ledger in memory that has what the one in the folder has, if there is one; what is put into its store goes
        to the folder `scratch`. Nothing of it lasts."""
        ledger = cls.__new__(cls)
        ledger.folder, ledger.store = folder, Store(scratch)
        ledger.path = folder / SHARDS / f"{shard}.sqlite3" if shard else folder / FILE
        ledger._connect(":memory:")
        if ledger.path.is_file():
            with cls(folder, shard=shard) as own:
                own._connection.backup(ledger._connection)
        return ledger

    def _connect(self, name: str) -> None:
        self._connection = sqlite3.connect(name, timeout=PATIENCE, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._begin()

    def _begin(self) -> None:
        run = self._connection.execute
        version = run("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise UsageError(f"{self.path} was written by a newer version of the grader; update this one.")
        run("PRAGMA synchronous = FULL")
        run("PRAGMA cache_size = -16000")
        if version < VERSION:
            with self.changing():
                for statement in SCHEMA.split(";"):
                    run(statement)
                run(f"PRAGMA user_version = {VERSION}")

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # ── what a class is read from ──

    def rows(self) -> Iterator[Row]:
        """Every hand-in of every exercise of the plan in force, by exercise and person. Of several hand-ins of one
        person one counts. Read a page at a time, so all of them need never be in memory."""
        plan = self.plan()
        best = content_of(plan).get("choice") == "best"
        entries = map(_Entry._make, self._entries(plan["plan"] if plan else 0))
        for _, own in itertools.groupby(entries, key=attrgetter("exercise", "who")):
            several = list(own)
            counting = max(several, key=_worth) if best else several[-1]
            for entry in several:
                yield self._row(entry, counts=entry is counting)

    def exercises(self) -> list[str]:
        """The exercises of the plan in force."""
        plan = self.plan()
        query = "SELECT DISTINCT exercise FROM entries WHERE plan = ? ORDER BY exercise"
        return [row["exercise"] for row in self.all(query, [plan["plan"] if plan else 0])]

    def _entries(self, plan: int) -> Iterator[sqlite3.Row]:
        """The entries of a plan with their units, in the order of their key."""
        after: tuple[str, str, int] = ("", "", 0)
        while page := self.all(PAGE, [plan, *after]):
            yield from page
            last = page[-1]
            after = last["exercise"], last["who"], last["attempt"]

    def _row(self, entry: _Entry, *, counts: bool) -> Row:
        names, place = json.loads(entry.content), self.store.place
        return Row(
            who=entry.who,
            exercise=entry.exercise,
            unit=entry.unit,
            standing=Standing(entry.standing),
            weight=entry.weight,
            seed=entry.seed,
            kept=entry.kept,
            submitted_at=datetime.fromisoformat(entry.submitted_at) if entry.submitted_at else None,
            late=entry.late,
            untouched=bool(entry.untouched),
            unstable=bool(entry.unstable),
            flipped=tuple(json.loads(entry.flipped)) if entry.unstable else (),
            attempt=entry.attempt,
            counts=counts,
            seconds=entry.seconds,
            busy=entry.busy,
            cpu=entry.cpu,
            report_file=place(entry.report),
            source_file=place(names[0][1] if names else ""),
            runs_file=place(entry.runs),
            summary=Summary(entry.own or "", entry.common or ""),
        )

    # ── for the modules of this package ──

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, committed and synced or as if it had never been. Raises RunError where the disk is full, or
        something else keeps it from being written."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise RunError(f"{self.path} could not be written: {error}. What was recorded before is kept.") from None

    def all(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """All rows of a query. Raises RunError where they cannot be read."""
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise RunError(f"{self.path} could not be read: {error}.") from None

    def one(self, query: str, values: Sequence[Any] = ()) -> sqlite3.Row | None:
        return next(iter(self.all(query, values)), None)

    def number(self, query: str, values: Sequence[Any] = ()) -> float:
        """The only value of a query that gives one number; 0 for NULL."""
        return next(iter(self.all(query, values)))[0] or 0

    def facts(self) -> dict[str, str]:
        """What holds for the whole batch: its title."""
        return {row["name"]: row["value"] for row in self.all("SELECT * FROM facts")}

    def set_facts(self, facts: Iterable[tuple[str, str]]) -> None:
        with self.changing() as connection:
            connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts)

    def attach(self, other: Ledger) -> None:
        """Make another ledger readable as `other` beside this one. Raises RunError."""
        self.all("ATTACH DATABASE ? AS other", [str(other.path)])

    def detach(self) -> None:
        self.all("DETACH DATABASE other")

    def plan(self) -> sqlite3.Row | None:
        """The plan in force, which is the last one."""
        return self.one("SELECT * FROM plans ORDER BY plan DESC LIMIT 1")

    def plan_before(self, plan: int) -> sqlite3.Row | None:
        return self.one("SELECT * FROM plans WHERE plan < ? ORDER BY plan DESC LIMIT 1", [plan])


def _no_batch(folder: Path) -> str:
    if any((folder / SHARDS).glob("*.sqlite3")):
        return f"{folder} holds shards that are not joined yet; `batch merge {folder}` joins them."
    return f"{folder} holds no batch ({FILE} is missing); name the folder of --out."


def content_of(plan: sqlite3.Row | None) -> dict[str, Any]:
    """What a plan says beside its entries; nothing where there is no plan."""
    found: dict[str, Any] = json.loads(plan["content"]) if plan else {}
    return found


def _worth(entry: _Entry) -> tuple[float, int]:
    """What a hand-in earns; the later one of two that earn the same comes last."""
    mark = -1.0 if entry.mark is None or not entry.max_score else entry.mark / entry.max_score * entry.kept
    return mark, entry.attempt
