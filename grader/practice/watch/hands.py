"""Does what the State orders: talks to the worker, listens for saves, writes and opens pages. Tells what came of it."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import platformdirs

from grader import catalog, files
from grader.model import Exercise, Report, alone
from grader.model.errors import GraderError
from grader.practice import overview
from grader.practice import reset as again
from grader.practice.watch.files import Files, digest_of, files_of
from grader.practice.watch.link import Link, words_of
from grader.practice.watch.nouns import (
    Cancel,
    Event,
    Grade,
    List,
    Listed,
    Load,
    Loaded,
    Open,
    Order,
    Reset,
    Start,
    Told,
    Watch,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where is watched: the repository, a submission if it is not the student's own file, and the sandbox's choice."""

    root: Path
    submission: Path | None = None
    sandbox: str = "auto"

    def path(self, exercise: Exercise) -> Path:
        """The file that is graded. It need not be there."""
        own = self.root / "exercises" / exercise.name / exercise.file
        if self.submission is None:
            return own
        if not self.submission.is_dir():
            return self.submission
        folders = ("", exercise.name, f"exercises/{exercise.name}")
        found = [self.submission / folder / exercise.file for folder in folders]
        return next((path for path in found if path.is_file()), found[0])

    def files(self, exercise: Exercise) -> tuple[Path, ...]:
        return files_of(exercise, self.path(exercise), self.root)

    def load(self, name: str) -> Loaded:
        """Raises AuthorError where the exercise's folder is at fault."""
        exercise = catalog.load(name, self.root)
        return Loaded(exercise=exercise, path=self.path(exercise), digest=digest_of(self.files(exercise)))


class Worker(Protocol):
    """What hands need of a link; a test has its own."""

    def send(self, command: dict[str, object]) -> None: ...
    def hang_up(self) -> None: ...
    def close(self) -> None: ...


Tell = Callable[[Event], None]
Hire = Callable[[int, list[str], Tell], Worker]


@dataclass(slots=True)
class Hands:
    """Carries out orders. What comes of them is told, from any thread."""

    place: Place
    tell: Tell
    hire: Hire = Link
    _workers: list[Worker] = field(default_factory=list)
    _files: Files | None = None

    def carry_out(self, order: Order) -> None:
        """Never raises for what a person or a machine did: that is told."""
        try:
            self._do(order)
        except GraderError as error:
            self.tell(Told(text=str(error)))
        except OSError as error:
            self.tell(Told(text=f"That did not work: {error.strerror or error}."))

    def close(self) -> None:
        """End every worker and wait for it; no longer hear of saves."""
        if self._files:
            self._files.close()
        for worker in self._workers:
            worker.hang_up()
        for worker in self._workers:
            worker.close()

    def _do(self, order: Order) -> None:
        match order:
            case Start():
                self._start(order)
            case Watch():
                self._watch(order)
            case Grade():
                self._workers[-1].send({"do": "grade", "seed": order.seed, "trace": order.trace})
            case Cancel():
                self._workers[-1].send({"do": "cancel"})
            case Load():
                self.tell(self.place.load(order.name))
            case List():
                self.tell(Listed(entries=tuple(overview.entries(self.place.root))))
            case Open():
                self.tell(Told(text=self._open(order)))
            case Reset():
                self.tell(Told(text=_reset(order.exercise, self.place.root)))

    def _start(self, order: Start) -> None:
        for worker in self._workers:
            worker.hang_up()
        place = self.place
        words = words_of(order.name, place.root, place.submission, place.sandbox)
        self._workers.append(self.hire(order.worker, words, self.tell))

    def _watch(self, order: Watch) -> None:
        if self._files:
            self._files.close()
        self._files = Files(self.place.files(order.exercise), order.digest, self.tell)

    def _open(self, order: Open) -> str:
        """Write the page or the timelines, and show them where there is a screen for that."""
        name = order.report.exercise.name
        path = folder() / (f"{name}.html" if order.kind == "report" else f"{name}.trace.json")
        text = rendered(order.kind, order.report).encode()
        files.write(path, functools.partial(_fill, text=text))
        if order.kind == "trace":
            return f"The timelines are in {path}; open that file in ui.perfetto.dev."
        return f"{'Opened' if opened(path) else 'The report is'} {path}"


def rendered(kind: str, report: Report) -> str:
    if kind == "trace":
        from grader.render import chrome

        return chrome.render(report)
    from grader.render import html

    return html.render(alone(report))


def _fill(path: Path, text: bytes) -> None:
    path.write_bytes(text)


def folder() -> Path:
    """The folder for pages, which anybody may empty."""
    made = Path(platformdirs.user_cache_dir("ranklings", appauthor=False))
    made.mkdir(parents=True, exist_ok=True)
    return made


def opened(path: Path) -> bool:
    """Show a file in the person's browser. False where there is no screen for one, as over ssh."""
    if sys.platform == "win32":
        os.startfile(path)
        return True
    program = shutil.which("open" if sys.platform == "darwin" else "xdg-open")
    screen = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if program is None or not screen:
        return False
    with contextlib.suppress(OSError):
        quiet = subprocess.DEVNULL
        subprocess.Popen([program, str(path)], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        return True
    return False


def _reset(exercise: Exercise, root: Path) -> str:
    stub = again.original(exercise, root)
    if again.untouched(exercise, stub):
        return f"{exercise.file} is the stub already."
    kept = again.reset(exercise, stub)
    return f"{exercise.file} is the stub again." + (f" Your file is kept as {kept.name}." if kept else "")
