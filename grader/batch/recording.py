"""What an engine's events become in the ledger: an attempt each, and for a unit at most one verdict."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.batch.ledger import Ledger
from grader.batch.report.summary import key_of, summary_of
from grader.batch.row import NO_SUMMARY, Standing, Summary
from grader.batch.seam import Graded, Refused

MADE = """
SELECT runs, runs_bytes, seconds, busy, cpu FROM units
WHERE runs != '' AND run_key = (SELECT run_key FROM units WHERE unit = ?) LIMIT 1
"""
"""The runs that a unit is judged from, and what they took."""
RUN, JUDGE = "run", "judge"
"""What is asked for: a grade from the beginning, or recorded runs judged again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a report comes to. `checks` maps each check to its status; `mark` is None where the grader was at fault.
    `summary` is what a class report takes from it."""

    status: str
    score: float
    max_score: float
    mark: float | None
    checks: Mapping[str, str]
    seed: int
    summary: Summary = NO_SUMMARY

    @property
    def standing(self) -> Standing:
        return Standing.BROKEN if self.status == "error" else Standing.FINAL


def told(report: bytes) -> Told:
    """What a report says. Raises LookupError, TypeError or ValueError for what is none."""
    data = json.loads(report)
    return Told(
        status=data["status"],
        score=float(data["score"]),
        max_score=float(data["max_score"]),
        mark=None if data["mark"] is None else float(data["mark"]),
        checks={check["id"]: check["status"] for check in data["checks"]},
        seed=int(data["seed"]),
        summary=summary_of(data),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What becomes of a unit: the attempt at it, and the columns of the unit that it changes."""

    unit: str
    kind: str
    slot: str
    outcome: str
    at: float
    sentence: str = ""
    report: str = ""
    log: str = ""
    seconds: float = 0.0
    summary: Summary = NO_SUMMARY
    changes: Mapping[str, Any]


def graded(ledger: Ledger, event: Graded, said: Told, kind: str, at: float) -> Settled:
    """A first verdict, or one that was asked for again: it counts. Keys hold once the store is flushed. One that was
    judged from runs took what making these took."""
    store = ledger.store
    report = store.put_compressed(event.report, ".json")
    changes: dict[str, Any] = {
        "standing": said.standing.value,
        "status": said.status,
        "report": report,
        "score": said.score,
        "max_score": said.max_score,
        "mark": said.mark,
        "checks": json.dumps(dict(said.checks)),
        "sentence": "",
    }
    if kind == RUN:
        changes |= {"runs": store.put(event.runs, ".runs.gz"), "runs_bytes": len(event.runs)}
        changes |= {"seconds": event.seconds, "busy": event.busy, "cpu": event.cpu}
    elif made := ledger.one(MADE, [event.unit]):
        changes |= dict(made)
    return Settled(
        unit=event.unit,
        kind=kind,
        slot=event.slot,
        outcome="broken" if said.standing is Standing.BROKEN else "graded",
        at=at,
        report=report,
        log=store.put_compressed(event.log, ".log"),
        seconds=event.seconds,
        summary=said.summary,
        changes=changes,
    )


def late(ledger: Ledger, event: Graded, kind: str, at: float) -> Settled:
    """A verdict that comes when there is one: kept beside it."""
    report = ledger.store.put_compressed(event.report, ".json")
    log = ledger.store.put_compressed(event.log, ".log")
    common = {"unit": event.unit, "kind": kind, "slot": event.slot, "at": at, "seconds": event.seconds}
    return Settled(**common, outcome="late", report=report, log=log, changes={})  # type: ignore[arg-type]


def refused(ledger: Ledger, event: Refused, kind: str, at: float) -> Settled:
    """A worker that could not grade, by no fault of the hand-in's."""
    log = ledger.store.put_compressed(event.log, ".log")
    changes = {"standing": Standing.BROKEN.value, "sentence": event.sentence}
    return Settled(
        unit=event.unit,
        kind=kind,
        slot=event.slot,
        outcome="refused",
        at=at,
        sentence=event.sentence,
        log=log,
        changes=changes,
    )


def changed(settled: Settled, changes: Mapping[str, Any]) -> Settled:
    """The same attempt with these changes of its unit."""
    return replace(settled, changes=changes)


def flipped(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """The checks that two grades of one unit judged otherwise."""
    return tuple(name for name in before if after.get(name, before[name]) != before[name])


def write(ledger: Ledger, settled: Sequence[Settled], facts: Sequence[tuple[str, str]] = ()) -> None:
    """Make it all last: first the files, then the rows and facts, in one transaction. Raises RunError or OSError, and
    then it is as if nothing of it had happened."""
    ledger.store.flush()
    with ledger.changing() as connection:
        for one in settled:
            _write(connection, one)
        connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts)


def _write(connection: sqlite3.Connection, one: Settled) -> None:
    connection.execute(
        "INSERT INTO attempts (unit, kind, slot, outcome, sentence, report, log, seconds, at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [one.unit, one.kind, one.slot, one.outcome, one.sentence, one.report, one.log, one.seconds, one.at],
    )
    if one.summary.own:
        kinds = [(key_of(text), text) for text in one.summary]
        connection.executemany("INSERT OR IGNORE INTO kinds VALUES (?, ?)", kinds)
        connection.execute("INSERT OR REPLACE INTO summaries VALUES (?, ?)", [one.report, kinds[0][0]])
    if one.changes:
        columns = ", ".join(f"{name} = ?" for name in one.changes)
        connection.execute(f"UPDATE units SET {columns} WHERE unit = ?", [*one.changes.values(), one.unit])
