"""How long a person waits from a save to the first verdict and to the full report, with the real watcher and worker.

    python -m grader.authoring.watch_bench [EX] [--times 10]

It saves the exercise's solution with a comment changed, again and again, in a copy of the exercise. The figures mean
something on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader import catalog
from grader.authoring.lab import solution_of
from grader.practice.watch.effects import Effects, Place
from grader.practice.watch.loop import Loop
from grader.practice.watch.nouns import Event, Grade, Said, State
from grader.practice.watch.state import begin

FIRST_AT_MOST, FULL_AT_MOST = 0.5, 1.0
"""Seconds on two free cores: what exercise 03 is held to."""
PATIENCE = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Seconds from one save to what came of it. `heard` is when the grade was asked for."""

    heard: float
    first: float
    full: float


@contextlib.contextmanager
def course(name: str, root: Path) -> Iterator[tuple[Path, str]]:
    """A copy of one exercise, with its solution as the student's file, and the solution's text."""
    exercise = catalog.load(name, root)
    solution = solution_of(exercise, root).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="ranklings-") as folder:
        copy = Path(folder)
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(root / "exercises", copy / "exercises", ignore=ignored)
        for part in exercise.companions:
            used = catalog.load(part, root)
            shutil.copyfile(solution_of(used, root), copy / "exercises" / part / used.file)
        save(copy / "exercises" / name / exercise.file, solution)
        yield copy, solution


def save(path: Path, text: str) -> None:
    """As editors do that write a temporary file first."""
    partial = path.with_name(f".{path.name}.swp")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


class Watcher:
    """Watch mode without a face."""

    def __init__(self, name: str, root: Path) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._effects = Effects(Place(root=root), self._events.put)
        loaded = self._effects.place.load(name)
        self.path = loaded.path
        state = begin(loaded.exercise, loaded.path, (name,), digest=loaded.digest)
        self.loop = Loop(state, self._effects, lambda report: None)

    def close(self) -> None:
        self._effects.close()

    def until(self, happened: Callable[[State, Event], bool]) -> float:
        """Go on until something has happened. When that was."""
        while True:
            event = self._events.get(timeout=PATIENCE)
            self.loop.handle(event)
            if happened(self.loop.state, event):
                return time.monotonic()

    def measured(self, text: str) -> Wait:
        """One save."""
        start = time.monotonic()
        save(self.path, text)
        attempts = self.loop.state.attempts
        heard = self.until(lambda state, event: any(isinstance(effect, Grade) for effect in state.effects)) - start
        first = self.until(lambda state, event: _said(event, "verdict", "report", "fault")) - start
        if self.loop.state.attempts > attempts:
            return Wait(heard=heard, first=first, full=first)
        full = self.until(lambda state, event: _said(event, "report", "fault")) - start
        return Wait(heard=heard, first=first, full=full)


def _said(event: Event, *kinds: str) -> bool:
    return isinstance(event, Said) and event.event["event"] in kinds


def waits(name: str, root: Path, times: int) -> list[Wait]:
    """Seconds from each of so many saves. Raises RuntimeError if the solution does not pass."""
    with course(name, root) as (copy, solution), contextlib.closing(Watcher(name, copy)) as watcher:
        watcher.until(lambda state, event: state.attempts == 1)
        found = [watcher.measured(f"{solution}\n# saved {number}\n") for number in range(times)]
        report = watcher.loop.state.report
        if report is None or report.status != "passed":
            raise RuntimeError(f"the solution of {name} did not pass")
    return found


def page(found: Sequence[Wait]) -> str:
    """The figures, in lines."""
    rows = {
        "until it is heard": ([wait.heard for wait in found], None),
        "until the first verdict": ([wait.first for wait in found], FIRST_AT_MOST),
        "until the full report": ([wait.full for wait in found], FULL_AT_MOST),
    }
    return "\n".join(
        f"{label:<24} median {statistics.median(values):.2f} s, slowest {max(values):.2f} s"
        + (f" (at most {most:g} s on two free cores)" if most else "")
        for label, (values, most) in rows.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m grader.authoring.watch_bench")
    parser.add_argument("name", metavar="EX", nargs="?", default="03")
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    root = catalog.repository_root()
    load = os.getloadavg()[0]
    name = catalog.resolve(options.name, root)
    print(f"{name}, {options.times} saves, {os.cpu_count()} cores; 1-minute load before the start: {load:.1f}")
    print(page(waits(name, root, options.times)))


if __name__ == "__main__":
    main()
