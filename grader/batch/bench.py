"""What a batch costs over its students' own runs, as ratios, which mean the same on a slow machine; and what a slot
keeps in memory. `make bench-batch`.

python -m grader.batch.bench --size 200 --loop 10 --units 100

A drawn sample of solutions, variants and mutants of all exercises is graded by a batch on this machine, some of it
again by a loop over `grader grade`, and one file again and again on one slot.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import click
import psutil

from grader import catalog
from grader.authoring.verify import Kind, Specimen, specimens
from grader.batch.seam import Event, Graded, Work
from grader.batch.slots.local import LocalEngine, slots_for
from grader.grading.request import Machine
from grader.model import MIB
from grader.model.errors import AuthorError, RunError

MOST_OVER, LEAST_FASTER, MOST_GROWTH = 1.3, 3.0, 1.15
"""Bars: wall time over the cases' own run times divided by the slots; a loop's time over the batch's; a slot's memory
after the last units over that after the first."""
SETTLED = 20
"""Units after which a slot has imported what it will import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandIn:
    """A specimen as a class hands it in."""

    exercise: str
    file: str
    specimen: Specimen

    @property
    def work(self) -> Work:
        files = ((self.file, self.specimen.source),)
        return Work(unit=f"{self.exercise}/{self.specimen.name}", exercise=self.exercise, files=files, seed=7)


def sample(root: Path, size: int, rng: random.Random, only: Sequence[str] = ()) -> list[HandIn]:
    """So many specimens of all exercises; stubs are none, for nobody hands them in."""
    found = []
    for name in only or catalog.all_names(root):
        exercise = catalog.load(name, root)
        try:
            every = specimens(exercise, root)
        except AuthorError:
            continue  # no solution is at hand
        found += [HandIn(exercise=name, file=exercise.file, specimen=one) for one in every if one.kind is not Kind.STUB]
    return rng.sample(found, min(size, len(found)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch came to. `memory` has the bytes of the slots' own processes after each unit."""

    seconds: float
    graded: Sequence[Graded]
    memory: Sequence[int]

    @property
    def busy(self) -> float:
        return sum(one.busy for one in self.graded)


def run(works: Iterable[Work], root: Path, slots: int) -> Batch:
    """Grade it all on so many slots. The slots' start counts as well."""
    events: SimpleQueue[Event] = SimpleQueue()
    waiting, graded, memory = list(works)[::-1], list[Graded](), list[int]()
    start, total = time.monotonic(), len(waiting)
    with closing(LocalEngine(root, Machine())) as engine:
        for slot in engine.open(min(slots, total), events):
            engine.send(slot, waiting.pop())
        while len(graded) < total:
            event = events.get()
            if not isinstance(event, Graded):
                raise RunError(f"The bench goes on only where everything is graded: {event.sentence}")
            graded.append(event)
            if slots == 1:
                memory.append(used())
            if waiting:
                engine.send(event.slot, waiting.pop())
        seconds = time.monotonic() - start
    return Batch(seconds=seconds, graded=graded, memory=memory)


def used() -> int:
    """Bytes of all that this process has started."""
    found = 0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found += process.memory_info().rss
    return found


def loop(hand_ins: Iterable[HandIn], root: Path) -> float:
    """Seconds for a command of its own for each."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ranklings-") as folder:
        for one in hand_ins:
            path = Path(folder) / one.file
            path.write_bytes(one.specimen.source)
            words = [sys.executable, "-m", "grader", "grade", one.exercise, "--submission", str(path), "--seed", "7"]
            subprocess.run(words, cwd=root, stdout=subprocess.DEVNULL, check=False)
    return time.monotonic() - start


@click.command()
@click.argument("exercises", nargs=-1)
@click.option("--size", type=click.IntRange(1), default=200, show_default=True, help="Hand-ins of the class.")
@click.option("--loop", "looped", type=click.IntRange(1), default=10, show_default=True, help="Of them also in a loop.")
@click.option("--units", type=click.IntRange(SETTLED + 1), default=100, show_default=True, help="Units for the memory.")
@click.option("--slots", type=click.IntRange(1), help="As with batch.")
@click.option("--seed", type=int, help="What is drawn; without it always something else.")
def main(exercises: tuple[str, ...], size: int, looped: int, units: int, slots: int | None, seed: int | None) -> None:
    """Exit code 1 where a bar is missed."""
    root = catalog.repository_root()
    names = [catalog.resolve(word, root) for word in exercises]
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    slots = slots or slots_for(Machine().cores, widest=4)
    drawn = sample(root, size, random.Random(seed), names)
    click.echo(f"{len(drawn)} hand-ins on {slots} slots, seed {seed}")
    batch = run((one.work for one in drawn), root, slots)
    click.echo(f"{batch.seconds:.0f} s by the clock, {batch.busy:.0f} s of cases")
    ratios = [told("wall time over the cases' own by the slots", batch.seconds * slots / batch.busy, MOST_OVER)]
    some = drawn[:looped]
    among = {one.work.unit for one in some}
    shared = sum(one.seconds for one in batch.graded if one.unit in among) / slots
    ratios.append(told(f"batch over a loop of grade, {len(some)} files", shared / loop(some, root), 1 / LEAST_FASTER))
    again = run([dataclasses.replace(drawn[0].work, unit=str(number)) for number in range(units)], root, 1)
    click.echo(f"{again.memory[-1] / MIB:.0f} MiB a slot")
    growth = again.memory[-1] / again.memory[SETTLED]
    ratios.append(told(f"slot's memory after {units} units over {SETTLED}", growth, MOST_GROWTH))
    sys.exit(not all(ratios))


def told(words: str, ratio: float, most: float) -> bool:
    """Write a ratio beside its bar. Whether it is met."""
    click.echo(f"{'✓' if ratio <= most else '✗'} {words}: {ratio:.2f}, at most {most:.2f}")
    return ratio <= most


if __name__ == "__main__":
    main()
