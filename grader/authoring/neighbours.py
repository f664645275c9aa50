"""Grade the same files with the same seed again and again, alone and beside others, and count different verdicts.

python -m grader.authoring.neighbours --times 5 --mutants 10 --level limits 03

Beside others means that four graders, each a process with a session of its own, grade the files at the same time.
One file more is made of the solution, which meets at a port that is written into it. There may be no difference.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

from grader import catalog
from grader.authoring.lab import named, warm_session
from grader.authoring.verify import Kind, Specimen, specimens
from grader.grading.flow import grade
from grader.grading.request import Request
from grader.model import Exercise, Report
from grader.ranks import Session

OTHERS = 3
CHOICES = {"bubblewrap": "require", "limits": "off"}
PORT = "import os\n\nos.environ.update(MASTER_ADDR='localhost', MASTER_PORT='12355')\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What one grade of a file came to, and where: at which level, alone or beside others."""

    name: str
    level: str
    beside: bool
    outcomes: tuple[str, ...]
    score: float
    seconds: float

    @property
    def where(self) -> str:
        return f"{self.level}, {'beside others' if self.beside else 'alone'}"

    @property
    def came_to(self) -> tuple[tuple[str, ...], float]:
        return self.outcomes, self.score


def drawn(exercise: Exercise, root: Path, mutants: int, seed: int, only: Sequence[str]) -> list[Specimen]:
    """The solution, every variant, some mutants, and a solution that meets at a port of its own; or those of `only`."""
    every = [*specimens(exercise, root)]
    right = [one for one in every if one.kind in (Kind.SOLUTION, Kind.VARIANT)]
    wrong = [one for one in every if one.kind is Kind.MUTANT]
    chosen = random.Random(seed).sample(wrong, min(mutants, len(wrong)))
    all_of_them = [*right, *chosen, _with_a_port(right[0])]
    return [one for one in all_of_them if one.name in only or not only]


def _with_a_port(solution: Specimen) -> Specimen:
    """The solution, which sets MASTER_PORT itself when it is imported."""
    lines = solution.source.decode().splitlines(keepends=True)
    place = next((number for number, line in enumerate(lines) if line.startswith(("import ", "from torch"))), 0)
    source = "".join([*lines[:place], PORT, *lines[place:]]).encode()
    return Specimen(kind=Kind.VARIANT, name="port", path=solution.path, source=source)


def graded(name: str, files: Sequence[Path], times: int, seed: int, level: str, beside: bool) -> list[Grade]:
    """Each file so many times, one after another, by a grader of their own."""
    with warm_session(sandbox=CHOICES[level]) as session:
        return [_graded(session, name, file, seed, level, beside) for _ in range(times) for file in files]


def _graded(session: Session, name: str, file: Path, seed: int, level: str, beside: bool) -> Grade:
    start = time.monotonic()
    request = Request(exercise=name, root=catalog.repository_root(), submission=file, seed=seed)
    report: Report = grade(request, session)
    return Grade(
        name=file.parent.name,
        level=level,
        beside=beside,
        outcomes=tuple(f"{verdict.check.id} {verdict.outcome.value}" for verdict in report.verdicts),
        score=report.score,
        seconds=time.monotonic() - start,
    )


def campaign(name: str, files: Sequence[Path], times: int, seed: int, level: str) -> Iterator[Grade]:
    """Every file `times` times alone, and as often beside others, who count as well."""
    graders = 1 + OTHERS
    with ProcessPoolExecutor(graders, multiprocessing.get_context("spawn")) as pool:
        yield from pool.submit(graded, name, files, times, seed, level, False).result()
        turns = [[*files[place:], *files[:place]] for place in range(graders)]
        jobs = [pool.submit(graded, name, turn, -(-times // graders), seed, level, True) for turn in turns]
        for job in jobs:
            yield from job.result()


def differences(grades: Iterable[Grade]) -> Iterator[str]:
    """One line for each file that did not always come to the same."""
    found: dict[str, list[Grade]] = defaultdict(list)
    for one in grades:
        found[one.name].append(one)
    for name, all_of_it in found.items():
        first = all_of_it[0]
        for other in all_of_it[1:]:
            if other.came_to != first.came_to:
                changed = sorted(set(other.outcomes) ^ set(first.outcomes))
                yield f"{name}: {other.score:g} instead of {first.score:g} ({other.where}): {', '.join(changed)}"


@click.command(help=__doc__)
@click.argument("ex", nargs=-1)
@click.option("--times", default=5, show_default=True, help="How often each file is graded in each way.")
@click.option("--mutants", default=10, show_default=True, help="How many mutants of each exercise are drawn.")
@click.option("--only", multiple=True, help="A file to try, instead of all: port is the one with a port.")
@click.option("--seed", default=7, show_default=True, help="The seed of every grade, and what draws the mutants.")
@click.option("--level", "levels", multiple=True, type=click.Choice([*CHOICES]), help="Only this level.")
def main(
    ex: tuple[str, ...], times: int, mutants: int, only: tuple[str, ...], seed: int, levels: tuple[str, ...]
) -> None:
    root, wrong = catalog.repository_root(), 0
    for name in named(ex, root):
        start, exercise = time.monotonic(), catalog.load(name, root)
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for one in drawn(exercise, root, mutants, seed, only):
                files.append(Path(folder, one.name, exercise.file))
                files[-1].parent.mkdir()
                files[-1].write_bytes(one.source)
            grades: list[Grade] = []
            for level in levels or CHOICES:
                for made in campaign(name, files, times, seed, level):
                    grades.append(made)
                    click.echo(f"  {made.name}: {made.score:g} ({made.where}, {made.seconds:.0f} s)", err=True)
        told = [*differences(grades)]
        click.echo("".join(f"  {line}\n" for line in told), nl=False)
        seconds = time.monotonic() - start
        click.echo(f"{name}: {len(files)} files, {len(grades)} grades, {len(told)} differences, {seconds:.0f} s")
        wrong += len(told)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
