"""The plan of a batch: which units an assignment and a folder of hand-ins come to, and whose each is.

Identical files are one unit, whoever handed them in. A unit's digest holds the files, the exercise with the course's
own checks, the grader, torch and the seed, so a plan that is made anew finds again all that did not change.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grader import catalog
from grader.batch import people as tables
from grader.batch import sources as reading
from grader.batch.agenda import estimate
from grader.batch.basis import Basis, basis_of, versions
from grader.batch.exports import find
from grader.batch.hand_ins import HandIn, in_order
from grader.batch.ledger import Ledger
from grader.batch.sources import Sources
from grader.course import roster
from grader.model import Exercise, Late
from grader.model.assignment import Assignment, Part
from grader.model.errors import UsageError
from grader.model.words import listed

CHOICES = ("latest", "best")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be graded. `choice` says which of several hand-ins of one person is marked, `shard` (number, of how
    many) which units are graded here, `people` is a table of who handed in what and when, and `out` the folder
    that keeps it, if it is to be kept."""

    submissions: Path
    assignment: Assignment
    root: Path
    seed: int
    choice: str = ""
    shard: tuple[int, int] = (1, 1)
    people: tables.Table | None = None
    out: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What the plan in force comes to: the exercises as they are graded, the people, how long each exercise may take
    where nothing is recorded, and what is to be said where nobody knows who is late."""

    bases: Mapping[str, Basis]
    people: tuple[str, ...]
    entries: int
    untimed: str = ""

    @property
    def checks(self) -> dict[str, str]:
        return {name: str(basis.checks.absolute()) if basis.checks else "" for name, basis in self.bases.items()}

    @property
    def estimates(self) -> dict[str, float]:
        return {
            name: estimate([case.world_size for case in basis.exercise.cases]) for name, basis in self.bases.items()
        }

    @property
    def widest(self) -> int:
        """The ranks of the widest case."""
        return max((case.world_size for basis in self.bases.values() for case in basis.exercise.cases), default=1)


Row = tuple[str, str, int, str, float, float, str, str | None, int]
"""An entry: exercise, who, attempt, unit, weight, kept, late, submitted_at, untouched."""
Unit = tuple[str, str, str, str, int]


def make(ledger: Ledger, asked: Asked, now: Callable[[], float]) -> Planned:
    """Read the hand-ins and put the plan in force. Nothing is written where one of them cannot be graded. Raises
    UsageError or AuthorError."""
    bases = _bases(asked)
    hand_ins = _chosen(_found(asked), asked)
    sources, stubs = Sources(ledger), {name: _stub_key(basis) for name, basis in bases.items()}
    units: dict[str, Unit] = {}
    files: dict[str, str] = {}
    entries: list[Row] = []
    empty = True
    try:
        for hand_in, attempt in hand_ins:
            for part in asked.assignment.parts:
                basis = bases[part.exercise]
                found = sources.files(hand_in, basis.exercise)
                empty = empty and not found
                row, unit = _entry(hand_in, attempt, part, basis, found, asked.seed, stubs[part.exercise])
                if _belongs(unit[0], asked.shard):
                    entries.append(row)
                    units[unit[0]] = unit
                    files.setdefault(unit[2], reading.written(found))
        reading.check(sources)
        if empty:
            raise UsageError(_nothing_there(asked, next(iter(bases.values())).exercise))
        ledger.store.flush()
    finally:
        ledger.store.forget()
    entries.sort()
    if asked.people and asked.out:
        tables.keep(asked.people, asked.out)
    _write(ledger, entries, units.values(), files, sources, _content(asked, bases), asked.seed, now())
    people = tuple(dict.fromkeys(hand_in.who for hand_in, _ in hand_ins))
    due = any(part.due for part in asked.assignment.parts)
    untimed = tables.without_times([one.submitted_at for one, _ in hand_ins if due or one.due])
    return Planned(bases=bases, people=people, entries=len(entries), untimed=untimed)


def _nothing_there(asked: Asked, one: Exercise) -> str:
    return (
        f"No hand-in in {asked.submissions} has a file of the assignment, neither {one.file} nor "
        f"{one.name}/{one.file}; name the folder that holds the hand-ins."
    )


def _bases(asked: Asked) -> dict[str, Basis]:
    parts, checks = asked.assignment.parts, asked.assignment.checks
    alone = len(parts) == 1
    return {
        part.exercise: basis_of(
            part.exercise, asked.root, catalog.checks_for(part.exercise, checks, alone=alone) if checks else None
        )
        for part in parts
    }


def _found(asked: Asked) -> tuple[HandIn, ...]:
    parts = asked.assignment.parts
    file = catalog.load(parts[0].exercise, asked.root).file if len(parts) == 1 else ""
    found = find(asked.submissions, file)
    return in_order(tables.as_told(found, asked.people), asked.submissions) if asked.people else found


def _chosen(found: Iterable[HandIn], asked: Asked) -> list[tuple[HandIn, int]]:
    """The hand-ins that are graded, each with its number among those of its person."""
    chosen = []
    for _, own in itertools.groupby(found, key=lambda one: roster.normal(one.who)):
        several = sorted(own, key=lambda one: (one.submitted_at is not None, one.submitted_at or 0, one.order))
        if len(several) > 1 and not asked.choice:
            names = listed([one.name for one in several])
            raise UsageError(
                f"{several[0].who} has {len(several)} hand-ins ({names}); say --latest or --best, or remove one."
            )
        if len(several) > 1 and asked.choice == "latest":
            several = [_latest(several, asked)]
        who = several[-1].who  # however else it was written
        chosen += [(replace(one, who=who), number) for number, one in enumerate(several, 1)]
    return chosen


def _latest(several: Sequence[HandIn], asked: Asked) -> HandIn:
    moments = {one.submitted_at for one in several}
    if None in moments or len(moments) < len(several):
        raise UsageError(
            f"Which hand-in of {several[0].who} is the latest is not known ({listed([one.name for one in several])}); "
            "give submitted_at in a table for --people, or say --best."
        )
    return several[-1]


def _entry(
    hand_in: HandIn, attempt: int, part: Part, basis: Basis, found: reading.Files, seed: int, stub: str
) -> tuple[Row, Unit]:
    files = reading.digest(found)
    run_key = basis.run_key(files, seed)
    unit = basis.unit(run_key)
    late = part.late(hand_in.submitted_at, hand_in.due) or Late(kept=1.0, told=hand_in.note)
    at = hand_in.submitted_at.isoformat() if hand_in.submitted_at else None
    row = (
        part.exercise,
        hand_in.who,
        attempt,
        unit,
        part.weight,
        late.kept,
        late.told,
        at,
        int(bool(found) and found[0][1] == stub),
    )
    return row, (unit, part.exercise, files, run_key, seed)


def _stub_key(basis: Basis) -> str:
    """What the store calls a stub that was handed in as it is."""
    stub = basis.exercise.stub
    return f"{hashlib.sha256(stub.read_bytes()).hexdigest()}.py" if stub.is_file() else ""


def _belongs(unit: str, shard: tuple[int, int]) -> bool:
    number, of = shard
    return int(unit[:16], 16) % of == number - 1


def _content(asked: Asked, bases: Mapping[str, Basis]) -> dict[str, Any]:
    """What a plan says beside its entries."""
    return {
        "title": asked.assignment.title,
        "choice": asked.choice,
        "shard": list(asked.shard),
        "submissions": str(asked.submissions),
        "people": asked.people.digest if asked.people else "",
        "root": str(asked.root),
        "assignment": catalog.dump_assignment(asked.assignment),
        "versions": versions(),
        "parts": {name: dict(basis.parts) for name, basis in bases.items()},
    }


def _write(
    ledger: Ledger,
    entries: Sequence[Row],
    units: Iterable[Unit],
    files: Mapping[str, str],
    sources: Sources,
    content: dict[str, Any],
    seed: int,
    at: float,
) -> None:
    """Put the plan in force, unless it is already."""
    mixed = digest_of(entries, content)
    before = ledger.plan()
    with ledger.changing() as connection:
        connection.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", _rows(sources.new))
        connection.executemany("INSERT OR IGNORE INTO files VALUES (?, ?)", files.items())
        connection.executemany(
            "INSERT OR IGNORE INTO units (unit, exercise, files, run_key, seed) VALUES (?, ?, ?, ?, ?)", units
        )
        connection.execute("INSERT OR REPLACE INTO facts VALUES ('title', ?)", [content["title"]])
        if before is None or before["digest"] != mixed:
            plan = before["plan"] + 1 if before else 1
            connection.execute("INSERT INTO plans VALUES (?, ?, ?, ?, ?)", [plan, mixed, seed, at, json.dumps(content)])
            connection.executemany(f"INSERT INTO entries VALUES ({plan}, ?, ?, ?, ?, ?, ?, ?, ?, ?)", entries)


def digest_of(entries: Sequence[Sequence[object]], content: Mapping[str, Any]) -> str:
    """What tells two plans apart."""
    return hashlib.sha256(json.dumps([entries, content["choice"], content["title"]]).encode()).hexdigest()


def _rows(new: Mapping[str, tuple[str, str]]) -> Iterable[tuple[str, str, str]]:
    return ((path, mark, key) for path, (mark, key) in new.items())
