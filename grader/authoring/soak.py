"""Grade what is right again and again beside CPU hogs, and count wrong verdicts. There may be none.

python -m grader.authoring.soak --times 100 --hogs 2 03

With --check the wrong solutions that this check must fail are tried as well, and it alone is judged, on the cases that
it asks for.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import click

from grader import catalog
from grader.authoring.lab import named, warm_session
from grader.authoring.verify import Kind, Specimen, Trial, specimens, try_all
from grader.grading.seeding import seeded
from grader.judge import Panel, judge_with
from grader.model import MAX_SEED, Exercise, Submission
from grader.model.errors import UsageError
from grader.ranks import Session

HOG = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
"""Burns a core until whoever started it has gone."""
RIGHT = (Kind.SOLUTION, Kind.VARIANT)


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """Processes that burn a core each while the block lasts."""
    burning = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(count)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def soak(name: str, times: int, only: Sequence[str] = ()) -> Iterator[Trial]:
    """Every right specimen of an exercise, or those that `only` names, graded `times` times, on one warm host."""
    root = catalog.repository_root()
    exercise = catalog.load(name, root)
    right: list[Specimen] = [specimen for specimen in specimens(exercise, root) if specimen.kind in RIGHT]
    right = [specimen for specimen in right if not only or specimen.name in only]
    with warm_session() as session:
        for _ in range(times):
            yield from try_all(session, exercise, root, right, None, lambda phase: None)


def soak_check(name: str, check: str, times: int, only: Sequence[str] = ()) -> Iterator[Trial]:
    """One check, judged `times` times of every right specimen and of every mutant that it must fail, or of those among
    them that `only` names."""
    root = catalog.repository_root()
    whole = catalog.load(name, root)
    chosen = [s for s in specimens(whole, root) if s.kind in RIGHT or (s.kind is Kind.MUTANT and check in s.fails)]
    chosen = [specimen for specimen in chosen if not only or specimen.name in only]
    alone = tuple(replace(each, needs=()) for each in whole.checks if each.id == check)
    if not alone:
        raise UsageError(f"{name} has no check {check!r}: {', '.join(each.id for each in whole.checks)}.")
    exercise = replace(whole, checks=alone)
    with warm_session() as session:
        for _ in range(times):
            yield from (_judged_alone(session, exercise, specimen) for specimen in chosen)


def _judged_alone(session: Session, exercise: Exercise, specimen: Specimen) -> Trial:
    start, seed = time.monotonic(), secrets.randbelow(MAX_SEED)
    submission = Submission.of(specimen.path, specimen.source)
    panel = Panel(replace(exercise, cases=seeded(exercise, seed)), lambda case: session.run(exercise, submission, case))
    verdicts = judge_with(panel, only=[exercise.checks[0].id])
    specimen = replace(specimen, fails=specimen.fails & {exercise.checks[0].id})
    return Trial(specimen=specimen, verdicts=verdicts, seed=seed, seconds=time.monotonic() - start)


@click.command(help=__doc__)
@click.argument("ex", nargs=-1)
@click.option("--times", default=100, show_default=True, help="How often each specimen is graded.")
@click.option("--check", help="Judge this check alone.")
@click.option("--only", multiple=True, help="A specimen to try, instead of all.")
@click.option("--hogs", "count", default=2, show_default=True, help="How many CPU hogs run beside.")
def main(ex: tuple[str, ...], times: int, check: str | None, only: tuple[str, ...], count: int) -> None:
    root = catalog.repository_root()
    wrong = 0
    for name in named(ex, root):
        start, grades, breaches = time.monotonic(), 0, []
        with hogs(count):
            for trial in soak_check(name, check, times, only) if check else soak(name, times, only):
                grades += 1
                breaches += list(trial.breaches())
        wrong += len(breaches)
        for breach in breaches:
            click.echo(f"  {breach}")
        seconds = time.monotonic() - start
        click.echo(f"{name}: {grades} grades beside {count} hogs, {len(breaches)} wrong verdicts, {seconds:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
