"""Grade what is right again and again beside CPU hogs, and count wrong verdicts. There may be none.

python -m grader.authoring.soak --times 100 --hogs 2 03
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

import click

from grader import catalog
from grader.authoring.verify import Kind, Specimen, Trial, specimens, try_all
from grader.grade import preload
from grader.ranks import Session

RIGHT = (Kind.SOLUTION, Kind.VARIANT)


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """Processes that burn a core each while the block lasts."""
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def soak(name: str, times: int) -> Iterator[Trial]:
    """Every right specimen of an exercise, graded `times` times with seeds drawn anew, on one warm host."""
    root = catalog.repository_root()
    exercise = catalog.load(name, root)
    right: list[Specimen] = [specimen for specimen in specimens(exercise, root) if specimen.kind in RIGHT]
    with Session() as session:
        preload()
        for _ in range(times):
            yield from try_all(session, exercise, root, right, None, lambda phase: None)


@click.command(help=__doc__)
@click.argument("ex", nargs=-1)
@click.option("--times", default=100, show_default=True, help="How often each specimen is graded.")
@click.option("--hogs", "count", default=2, show_default=True, help="How many CPU hogs run beside.")
def main(ex: tuple[str, ...], times: int, count: int) -> None:
    root = catalog.repository_root()
    wrong = 0
    for name in [catalog.resolve(text, root) for text in ex] or catalog.all_names(root):
        start, grades, breaches = time.monotonic(), 0, []
        with hogs(count):
            for trial in soak(name, times):
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
