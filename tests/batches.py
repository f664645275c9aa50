"""Batches without a process: a class of hand-ins for the small exercise, and an engine that answers at once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import pytest
from click.testing import CliRunner, Result

from grader import catalog
from grader.batch import store
from grader.batch.agenda import agenda_of
from grader.batch.driver import Driver
from grader.batch.ledger import Ledger
from grader.batch.pace import Progress
from grader.batch.plan import Asked, Planned, make
from grader.batch.seam import Event, Graded, Lost, Refused, Work
from grader.cli import cli
from grader.cli.batch import engines
from tests import small

ASSIGNMENT = "title: Homework\nexercises:\n  90_total: {weight: 10}\n"
CHECKS = ("sums", "same", "refuses")


def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are not synced: no test's disk fails."""
    monkeypatch.setattr(store, "synced", lambda path: None)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def class_of_three(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A class of three in the current folder, two of them with the same file."""
    a_class(folder, ada="x = 1\n", bob="x = 1\n", eve="x = 2\n")
    monkeypatch.chdir(folder)
    return folder


def faked_engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """The engine that every command gets."""
    fake = FakeEngine()
    monkeypatch.setattr(engines, "engine_of", lambda *words: fake)
    return fake


class Killed(BaseException):
    """The driver is gone in the middle of something."""


def a_class(folder: Path, **sources: str) -> Path:
    """An exercise, an assignment and a folder of hand-ins: `ada="text of her file"`."""
    small.build(folder)
    (folder / "assignment.yaml").write_text(ASSIGNMENT)
    for who, source in sources.items():
        path = folder / "hand_ins" / who / "total.py"
        path.parent.mkdir(parents=True)
        path.write_text(source)
    return folder


def some(number: int) -> dict[str, str]:
    """So many people who all handed in something else."""
    return {f"student_{index:02}": f"def total(value):\n    return {index}\n" for index in range(number)}


def asked(folder: Path, **changes: object) -> Asked:
    assignment = catalog.load_assignment(folder / "assignment.yaml", folder)
    given = {"submissions": folder / "hand_ins", "assignment": assignment, "root": folder, "seed": 7, **changes}
    return Asked(**given)  # type: ignore[arg-type]


def report(work: Work, *failed: str, status: str = "") -> bytes:
    """What a grade of the work says, with these checks failed."""
    checks = [{"id": name, "status": "failed" if name in failed else "passed"} for name in CHECKS]
    score = 100.0 - 30.0 * len(failed)
    told = status or ("failed" if failed else "passed")
    mark = None if told == "error" else score
    return json.dumps(
        {"status": told, "score": score, "max_score": 100.0, "mark": mark, "checks": checks, "seed": work.seed}
    ).encode()


def right(slot: str, work: Work) -> Event:
    """A grade that follows from the files alone."""
    failed = CHECKS[: sum(work.files[0][1]) % 3] if work.files else CHECKS
    return graded(slot, work, report(work, *failed))


def graded(slot: str, work: Work, told: bytes) -> Graded:
    runs = b"" if work.runs else gzip.compress(b"runs of " + work.unit.encode(), mtime=0)
    return Graded(slot=slot, unit=work.unit, report=told, runs=runs, log=b"a line\n", seconds=2.0, busy=1.5, cpu=1.0)


def lost(slot: str, work: Work) -> Event:
    return Lost(slot=slot, units=(work.unit,), sentence="The worker died.", log=b"dead\n", successor=f"{slot}'")


def refused(slot: str, work: Work) -> Event:
    return Refused(slot=slot, unit=work.unit, sentence="No host could be started.", log=b"")


Answer = Callable[[str, Work], Event]


@dataclass
class FakeEngine:
    """Slots that answer at once, by `answers` in turn and then by `otherwise`. `sent` is what they were asked."""

    answers: Sequence[Answer] = ()
    otherwise: Answer = right
    depth: int = 1
    sent: list[tuple[str, Work]] = field(default_factory=list)
    closed: int = 0

    def open(self, slots: int, events: SimpleQueue[Event]) -> tuple[str, ...]:
        self.answers, self.events = list(self.answers), events
        return tuple(f"slot-{number}" for number in range(slots))

    def send(self, slot: str, work: Work) -> None:
        self.sent.append((slot, work))
        answer = self.answers.pop(0) if self.answers else self.otherwise
        self.events.put(answer(slot, work))

    def close(self) -> None:
        self.closed += 1


def batch(
    folder: Path,
    engine: FakeEngine | None = None,
    *,
    slots: int = 2,
    again: str = "",
    watch: Callable[[Progress], None] = lambda progress: None,
    **changes: object,
) -> Progress:
    """One round of the class in `folder`."""
    clock = iter(range(1, 10**9))
    with Ledger(folder / "out", new=True) as ledger:
        planned = make(ledger, asked(folder, **changes), lambda: next(clock))
        return driven(ledger, planned, engine or FakeEngine(), slots, again, watch)


def driven(
    ledger: Ledger,
    planned: Planned,
    engine: FakeEngine,
    slots: int = 2,
    again: str = "",
    watch: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    agenda = agenda_of(ledger, planned.estimates, again=again)
    driver = Driver(ledger, engine, agenda, checks=planned.checks, now=lambda: 1.0, watch=watch)
    driver.run(slots)
    return driver.progress


def marks(folder: Path) -> dict[str, object]:
    """Who has which mark, and how far each hand-in has come."""
    with Ledger(folder / "out") as ledger:
        units = {row["unit"]: row["mark"] for row in ledger.all("SELECT unit, mark FROM units")}
        return {row.who: (row.standing.value, units[row.unit]) for row in ledger.rows()}


# --- the command ------------------------------------------------------------------------------------------------------


def call(*words: object) -> Result:
    return CliRunner().invoke(cli, ["batch", *map(str, words)])


def grade(*words: object) -> Result:
    return call("hand_ins", "--assignment", "assignment.yaml", "--out", "out", "--slots", 2, *words)


def refusal(result: Result) -> str:
    """The one sentence of a command that was wrong."""
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("grader: ")]
    assert len(lines) == 1 and "Traceback" not in result.output
    return lines[0]
