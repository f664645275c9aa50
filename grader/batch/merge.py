"""Several ledgers become one: the shards of a batch, or batches that were graded on several machines."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from grader.batch import people
from grader.batch.ledger import Ledger, content_of
from grader.batch.plan import digest_of
from grader.batch.recording import flipped
from grader.model.errors import UsageError

COLUMNS = "exercise, who, attempt, unit, weight, kept, late, submitted_at, untouched"
REFERRED = """
SELECT report AS key FROM other.units UNION SELECT runs FROM other.units
UNION SELECT report FROM other.attempts UNION SELECT log FROM other.attempts
"""


def merge(target: Ledger, sources: Sequence[Ledger], at: float) -> None:
    """Join the sources in the target, which may be new and may have joined them before. A unit that two have judged
    otherwise is unstable. Raises UsageError for batches of different assignments or seeds, and for two hand-ins of one
    person that are not the same, and where nothing is planned yet. A source without a plan has nothing to join."""
    sources = [source for source in sources if source.plan() is not None]
    planned = [*([target] if target.plan() is not None else []), *sources]
    if not planned:
        raise UsageError(f"{target.folder} holds no hand-ins yet; see what `batch` said where they were to be graded.")
    _check_alike(planned)
    for source in sources:
        if source.folder.resolve() != target.folder.resolve():
            _copy_objects(target, source)
            _copy_people(target, source)
        with _attached(target, source) as connection:
            _units(connection)
            _attempts(connection)
    _plan(target, sources, at)


def _check_alike(ledgers: Sequence[Ledger]) -> None:
    first, *others = ledgers
    for other in others:
        for what, one, two in (
            ("assignments", first.facts()["title"], other.facts()["title"]),
            ("seeds", _seed(first), _seed(other)),
        ):
            if one != two:
                raise UsageError(f"{first.folder} and {other.folder} have different {what}: {one} and {two}.")


def _seed(ledger: Ledger) -> int:
    plan = ledger.plan()
    return int(plan["seed"]) if plan else 0


@contextmanager
def _attached(target: Ledger, source: Ledger) -> Iterator[sqlite3.Connection]:
    """A transaction of the target in which the source is called `other`."""
    target.attach(source)
    try:
        with target.changing() as connection:
            yield connection
    finally:
        target.detach()


def _units(connection: sqlite3.Connection) -> None:
    for row in connection.execute(
        "SELECT m.unit, m.checks, m.flipped, o.checks AS others, o.flipped AS flips FROM units m "
        "JOIN other.units o ON o.unit = m.unit WHERE m.standing = 'final' AND o.standing = 'final' "
        "AND (m.checks != o.checks OR m.flipped != o.flipped)"
    ).fetchall():
        flips = flipped(json.loads(row["checks"]), json.loads(row["others"]))
        every = list(dict.fromkeys([*json.loads(row["flipped"]), *json.loads(row["flips"]), *flips]))
        values = [int(bool(every)), json.dumps(every), row["unit"]]
        connection.execute("UPDATE units SET unstable = ?, flipped = ? WHERE unit = ?", values)
    for table in ("files", "kinds", "summaries"):
        connection.execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM other.{table}")
    connection.execute(
        "INSERT OR REPLACE INTO units SELECT o.* FROM other.units o LEFT JOIN units m ON m.unit = o.unit "
        "WHERE m.unit IS NULL OR (m.standing != 'final' AND (o.standing = 'final' OR m.standing = 'expected'))"
    )


def _attempts(connection: sqlite3.Connection) -> None:
    names = "unit, kind, slot, outcome, sentence, report, log, seconds, at"
    connection.execute(
        f"INSERT INTO attempts ({names}) SELECT {names} FROM other.attempts o WHERE NOT EXISTS "
        "(SELECT 1 FROM attempts m WHERE m.unit = o.unit AND m.slot = o.slot AND m.at = o.at AND m.outcome = o.outcome)"
    )


def _plan(target: Ledger, sources: Sequence[Ledger], at: float) -> None:
    """Put a plan in force that has the entries of all."""
    before = target.plan()
    own = [target] if before is not None and not content_of(before).get("merged") else []
    entries = sorted(_entries([*own, *sources]))
    content = {**content_of((own or list(sources))[0].plan()), "merged": True, "shard": [1, 1]}
    mixed = digest_of(entries, content)
    if before is not None and before["digest"] == mixed:
        return
    plan, seed = (before["plan"] + 1 if before else 1), _seed((own or list(sources))[0])
    with target.changing() as connection:
        connection.execute("INSERT INTO plans VALUES (?, ?, ?, ?, ?)", [plan, mixed, seed, at, json.dumps(content)])
        connection.executemany(f"INSERT INTO entries VALUES ({plan}, ?, ?, ?, ?, ?, ?, ?, ?, ?)", entries)
        connection.execute("INSERT OR REPLACE INTO facts VALUES ('title', ?)", [content["title"]])


def _entries(ledgers: Iterable[Ledger]) -> list[tuple[object, ...]]:
    found: dict[tuple[str, str, int], tuple[object, ...]] = {}
    for ledger in ledgers:
        plan = ledger.plan()
        rows = ledger.all(f"SELECT {COLUMNS} FROM entries WHERE plan = ?", [plan["plan"] if plan else 0])
        for row in rows:
            key = row["exercise"], row["who"], row["attempt"]
            if found.setdefault(key, tuple(row))[3] != row["unit"]:
                raise UsageError(
                    f"{row['who']} handed in {row['exercise']} in two of these batches, and not the same; grade them "
                    "from one folder."
                )
    return list(found.values())


def _copy_people(target: Ledger, source: Ledger) -> None:
    """The table of people, where the target keeps none."""
    if (theirs := people.kept(source.folder)) and not people.kept(target.folder):
        people.keep(theirs, target.folder)


def _copy_objects(target: Ledger, source: Ledger) -> None:
    """Everything that the source refers to."""
    keys = {row["key"] for row in source.all(REFERRED.replace("other.", ""))}
    for row in source.all("SELECT content FROM files"):
        keys |= {key for _, key in json.loads(row["content"])}
    try:
        for key in keys - {""}:
            target.store.take(source.store, key)
        target.store.flush()
    finally:
        target.store.forget()
