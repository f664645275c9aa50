"""The seam of a batch: what its driver asks of slots, whatever runs them, and what they give back.

A slot grades one unit of work at a time. The driver alone decides which and alone writes what becomes of it: an engine
knows neither the ledger nor who handed in. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One grade that is asked for: `files` of a submission by relative name, for the exercise of that name.

    `unit` is the digest by which the ledger knows it. `seed` is the unit's own, so that another slot repeats it.
    `checks` names a folder of a course's own checks, or is empty. `deadline` is in seconds, None for no limit.
    `runs` is what `Graded.runs` of an earlier grade was: those are judged again (`Request.from_runs`) and nothing is
    run; empty for a grade from the beginning."""

    unit: str
    exercise: str
    files: tuple[tuple[str, bytes], ...]
    seed: int
    checks: str = ""
    deadline: float | None = None
    runs: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """A grade that came to its end. `report` is the report as JSON (docs/report.schema.json), `runs` the recorded runs
    as `records.recording` writes them, compressed by gzip, or empty where earlier ones were judged; `log` is what the
    slot's worker said meanwhile. `busy` is the sum of the cases' own run times and `cpu` what the slot's processes
    used, in seconds."""

    slot: str
    unit: str
    report: bytes
    runs: bytes
    log: bytes
    seconds: float
    busy: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A grade that the worker could not begin or end by a fault of its own, which it told in a sentence."""

    slot: str
    unit: str
    sentence: str
    log: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A slot that is gone (its worker died, its node did), with the units that it had and that may be what ended it,
    the one that it graded first; it has a successor of another name, or none if `successor` is empty. One that comes
    up later is told of in a second event, without units."""

    slot: str
    units: tuple[str, ...]
    sentence: str
    log: bytes
    successor: str = ""


Event = Graded | Refused | Lost


class Engine(Protocol):
    """Where slots run: local processes, or actors of Ray. Every event is put into the queue that `open` was given,
    from any thread."""

    depth: int
    """How many units a slot may hold, one of which it grades: 1, or 2 where asking takes a while."""

    def open(self, slots: int, events: SimpleQueue[Event]) -> tuple[str, ...]:
        """Start so many slots, and give their names. Raises UsageError where there is nothing to run them on."""
        ...

    def send(self, slot: str, work: Work) -> None:
        """Ask a slot for a grade. Returns at once; a slot that is gone tells so by an event."""
        ...

    def close(self) -> None:
        """End every slot with all that it started. May be called at any moment, and twice."""
        ...
