"""How a batch grows: many units on many slots through the real driver and ledger, with slots that only pretend.

python -m grader.batch.growth --units 100000 --slots 1000

Each pretended grade gives a report of the size of a real one, at once, so all the time that passes is the driver's: for
handing out, storing what comes back and writing the ledger. Then the batch is opened again, as after an interruption.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import click

from grader import catalog
from grader.batch.agenda import agenda_of
from grader.batch.driver import Driver
from grader.batch.ledger import Ledger
from grader.batch.plan import Asked, make
from grader.batch.report import page
from grader.batch.report.build import class_report
from grader.batch.seam import Event, Graded, Work
from grader.model import MIB, Exercise
from grader.model.assignment import Assignment, Part

MOST_MEMORY, MOST_OVERHEAD, MOST_RESUME, MOST_REPORT = 500 * MIB, 0.002, 5.0, 10.0
"""The bars: bytes of the driver, its seconds of processor for a unit, and those until a ledger with all of them has
said what is left, and until the class report is there. Looking at all hand-ins again comes on top of that."""
EXERCISE = "03_train_ddp"
RUNS, RANKS, RUNS_BYTES = 12, 4, 20_000


class PretendedEngine:
    """Slots that answer at once (`seam.Engine`)."""

    depth = 1

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self._exercise, self._random = exercise, random.Random(seed)
        self._runs = self._random.randbytes(RUNS_BYTES)
        told = [{"case": f"case[{number}]", "diagnosis": None, "ranks": self._ranks()} for number in range(RUNS)]
        self._told = json.dumps(told)  # the same for all, so that pretending takes little of the time that is measured

    def open(self, slots: int, events: SimpleQueue[Event]) -> tuple[str, ...]:
        self._events = events
        return tuple(f"pretended-{number + 1}" for number in range(slots))

    def send(self, slot: str, work: Work) -> None:
        self._events.put(
            Graded(
                slot=slot,
                unit=work.unit,
                report=f'{json.dumps(self._report(work))[:-1]}, "runs": {self._told}}}'.encode(),
                runs=work.unit.encode() + self._runs,
                log=b"unit " + work.unit.encode(),
                seconds=2,
                busy=1.5,
                cpu=1,
            )
        )

    def _report(self, work: Work) -> dict[str, Any]:
        """As long as a real one, and of its form as far as a driver and a class report look at it; no two are equal."""
        known = self._exercise.checks
        failed = set(self._random.sample(known, self._random.randrange(len(known))))
        score = 100.0 * (1 - len(failed) / len(known))
        told = {"status": "failed" if failed else "passed", "score": score, "max_score": 100.0, "mark": score}
        about = {"exercise": self._exercise.name, "title": self._exercise.title, "torch": "2.13.0", "seed": work.seed}
        checks = [
            {
                "id": check.id,
                "title": check.id,
                "points": check.points,
                "needs": list(check.needs),
                "status": "failed" if check in failed else "passed",
                "message": "",
                "findings": [self._finding(number) for number in range(3)] if check in failed else [],
            }
            for check in known
        ]
        return {**told, **about, "unit": work.unit, "submission": {"problem": None}, "checks": checks}

    def _finding(self, number: int) -> dict[str, Any]:
        actual = f"[{self._random.random()}, {self._random.random()}]"
        return {"subject": f"weights of layer {number}", "case": "", "expected": "[0.5, 0.25]", "actual": actual}

    def _ranks(self) -> list[dict[str, Any]]:
        facts = {f"fact {number}": self._random.random() for number in range(20)}
        return [{"rank": rank, "ending": "finished", "at": None, "facts": facts} for rank in range(RANKS)]

    def close(self) -> None:
        """Nothing was started."""


def hand_ins(folder: Path, file: str, count: int) -> None:
    """A folder a person, each with a file of its own."""
    for number in range(count):
        (place := folder / f"person_{number:06}").mkdir(parents=True)
        (place / file).write_text(f"# {number}\n")


@click.command()
@click.option("--units", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--slots", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="Where the batch is written; else a temporary folder.")
def main(units: int, slots: int, folder: Path | None) -> None:
    """Exit code 1 where a bar is missed."""
    with tempfile.TemporaryDirectory(prefix="ranklings-", dir=folder) as scratch:
        faults = list(measured(Path(scratch), units, slots))
    for fault in faults:
        click.echo(fault)
    sys.exit(1 if faults else 0)


def measured(folder: Path, units: int, slots: int) -> Iterator[str]:
    """Write what was measured, and give what misses a bar."""
    root = catalog.repository_root()
    exercise = catalog.load(EXERCISE, root)
    hand_ins(folder / "hand_ins", exercise.file, units)
    assignment = Assignment(title="Growth", parts=(Part(exercise=EXERCISE, weight=100.0),))
    asked = Asked(submissions=folder / "hand_ins", assignment=assignment, root=root, seed=1)
    with told("planned"), Ledger(folder / "out", new=True) as ledger:
        planned = make(ledger, asked, time.monotonic)
    with Ledger(folder / "out") as ledger:
        engine = PretendedEngine(exercise, seed=1)
        agenda = agenda_of(ledger, planned.estimates)
        driver = Driver(ledger, engine, agenda, checks=planned.checks, now=time.monotonic)
        with told("graded") as grading:
            driver.run(slots)
    with told("hand-ins looked at again"), Ledger(folder / "out") as ledger:
        make(ledger, asked, time.monotonic)
    with told("begun again") as resuming, Ledger(folder / "out") as ledger:
        left = agenda_of(ledger, planned.estimates).tasks
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with told("class report") as reporting, Ledger(folder / "out") as ledger:
        (folder / "class.html").write_text(page.render(class_report(ledger.rows())))
    overhead = 1000 * grading[1] / units
    click.echo(f"{units} units on {slots} slots: {overhead:.2f} ms a unit, {memory / MIB:.0f} MiB at most")
    bars = [
        (memory, MOST_MEMORY, f"memory of {memory / MIB:.0f} MiB"),
        (grading[1] / units, MOST_OVERHEAD, f"{overhead:.2f} ms a unit"),
        (resuming[1], MOST_RESUME, f"{resuming[1]:.1f} s to begin again"),
        (reporting[1], MOST_REPORT, f"{reporting[1]:.1f} s for the class report"),
    ]
    yield from (f"✗ {words}" for value, most, words in bars if value > most)
    if left:
        yield f"✗ {len(left)} units were left"


@contextmanager
def told(what: str) -> Iterator[list[float]]:
    """Says how long the block took by the clock and of the processor, and leaves both in the list."""
    start, used, seconds = time.monotonic(), time.process_time(), list[float]()
    yield seconds
    seconds += time.monotonic() - start, time.process_time() - used
    click.echo(f"{what} in {seconds[0]:.1f} s ({seconds[1]:.1f} s of processor)")


if __name__ == "__main__":
    main()
