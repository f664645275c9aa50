"""What is shown while a batch runs: a bar on a terminal, and elsewhere a plain line a minute."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from grader.batch import pace
from grader.batch.pace import Progress
from grader.cli.console import say

MINUTE = 60.0
Watch = Callable[[Progress], None]


@contextlib.contextmanager
def shown(plain: bool) -> Iterator[Watch]:
    """A function that is told again and again how far the round is."""
    begun = time.monotonic()
    if plain or not sys.stderr.isatty():
        yield _lines(begun)
        return
    with _bar(begun) as watch:
        yield watch


def told(progress: Progress, seconds: float) -> str:
    """`37 graded, 1 broken · 12 a minute · 4 min left`, after so many seconds."""
    counts = (
        (progress.graded, "graded"),
        (progress.broken, "broken"),
        (progress.quarantined, "quarantined"),
        (progress.unstable, "unstable"),
        (progress.lost, "lost slots"),
    )
    parts = [f"{number} {name}" for number, name in counts if number or name == "graded"]
    return " · ".join([", ".join(parts), *pace.told(progress, seconds)])


def _lines(begun: float) -> Watch:
    last = begun

    def watch(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= MINUTE:
            last = now
            say(f"{progress.settled} of {progress.tasks}: {told(progress, now - begun)}")

    return watch


@contextlib.contextmanager
def _bar(begun: float) -> Iterator[Watch]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False)
    with Bar(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=None)

        def watch(progress: Progress) -> None:
            description = told(progress, time.monotonic() - begun)
            bar.update(task, total=progress.tasks, completed=progress.settled, description=description)

        yield watch
