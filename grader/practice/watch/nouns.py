"""What watch mode is made of, all frozen: events that come in, effects that go out, and the State between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from grader.model import Exercise, Report
from grader.model.run import BUSY
from grader.practice.overview import Entry

FAILING = ("failed", "broken")
"""Outcomes that want attention, and stand first."""

# ── events ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The file was written, or is gone. `digest` is of what it holds now, None where there is no file."""

    digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A worker's event, as its JSON has it; for a report also the report itself."""

    worker: int
    event: Mapping[str, Any]
    report: Report | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A worker is no more. `reason` is its last word, if it had one."""

    worker: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a key stands for: one of keys.KEYS, or "other"."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A check was chosen by its id, with the mouse."""

    check: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """An exercise that was asked for is there. `path` is the file that is graded."""

    exercise: Exercise
    path: Path
    digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The course's exercises, as they were asked for, or what was found out of them `since`."""

    entries: tuple[Entry, ...]
    since: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A sentence to show, such as what came of an effect."""

    text: str


Event = Saved | Said | Ended | Key | Chosen | Loaded | Listed | Notice

# ── effects ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start a worker for the exercise in place of the one before."""

    worker: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """From now on hear of saves of this exercise's file, which held `digest`."""

    exercise: Exercise
    digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What the worker is to grade next. Its number is that of the worker's own count."""

    seed: int | None = None
    trace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Call off the grade that is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load another exercise."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """List the course."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Write the page ("report") or the timelines ("trace") of a report, and open them where that is possible."""

    kind: str
    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Put the stub back."""

    exercise: Exercise


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Put a text on the clipboard."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quit:
    """End watch mode."""


Effect = Start | Watch | Grade | Cancel | Load | List | Open | Reset | Copy | Quit

# ── between them ──


class Phase(Enum):
    """What the worker does."""

    IDLE = "idle"
    RUNNING = "running"
    CANCELLING = "cancelling"
    DOWN = "down"


class Overlay(Enum):
    """What is shown over the rest."""

    NONE = ""
    HELP = "help"
    LIST = "list"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One check. `outcome` is of the grade that is under way or was the last, None as long as it is not judged;
    `before` is of the grade before that."""

    id: str
    title: str
    points: float
    outcome: str | None = None
    before: str | None = None
    message: str = ""

    @property
    def failing(self) -> bool:
        return (self.outcome or self.before) in FAILING


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCase:
    """A run whose ranks stand still, or go on for long: rank, what it does, and at which line."""

    case: str
    ranks: tuple[tuple[int, str, int | None], ...]

    @property
    def head(self) -> str:
        busy = any(told == BUSY for _, told, _ in self.ranks)
        return f"{self.case} {'goes on and on' if busy else 'stands still'}:"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All that is known and all that is shown. `effects` are what the last event asks to be done, in this order.

    `submission` says that the file is not the exercise's own. `wanted` is graded as soon as the worker is free.
    `report` is the last complete one, of whatever version of the file. `hints` is how many of a check's hints are
    shown. `chosen` is the check that the person has moved to; without one the first that fails is selected.
    """

    exercise: Exercise
    path: Path
    names: tuple[str, ...]
    submission: bool = False
    fixed_seed: int | None = None

    phase: Phase = Phase.IDLE
    worker: int = 0
    grade: int = 0
    ready: bool = False
    began: bool = False
    digest: str | None = None
    wanted: Grade | None = None
    running: Grade | None = None

    rows: tuple[Row, ...] = ()
    cases: tuple[str, ...] = ()
    done: frozenset[str] = frozenset()
    live: tuple[LiveCase, ...] = ()
    seed: int | None = None
    report: Report | None = None
    times: tuple[float, float] | None = None
    attempts: int = 0
    fault: str = ""

    chosen: str | None = None
    hints: Mapping[str, int] = field(default_factory=dict)
    overlay: Overlay = Overlay.NONE
    entries: tuple[Entry, ...] = ()
    cursor: int = 0
    notice: str = ""
    open_trace: bool = False
    effects: tuple[Effect, ...] = ()

    @property
    def missing(self) -> bool:
        return self.digest is None

    @property
    def busy(self) -> bool:
        return self.phase in (Phase.RUNNING, Phase.CANCELLING)

    @property
    def ordered(self) -> tuple[Row, ...]:
        """The rows as they are shown: what fails first, otherwise in the exercise's order."""
        return tuple(sorted(self.rows, key=lambda row: not row.failing))

    @property
    def selected(self) -> Row | None:
        rows = self.ordered
        return next((row for row in rows if row.id == self.chosen), rows[0] if rows else None)

    @property
    def current(self) -> Report | None:
        """The report, if it is of the grade whose rows are shown."""
        return None if self.busy or self.fault else self.report

    @property
    def score(self) -> float:
        return sum(row.points for row in self.rows if row.outcome == "passed")

    @property
    def max_score(self) -> float:
        return sum(row.points for row in self.rows if row.outcome != "skipped")
