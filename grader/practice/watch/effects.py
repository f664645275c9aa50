"""Carries out what the State asks for: commands to the worker, hearing of saves, pages written and opened."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import platformdirs

from grader import calling, catalog, files
from grader.model import Exercise, Report, alone
from grader.model.errors import GraderError
from grader.practice import history, overview
from grader.practice import reset as again
from grader.practice.overview import Entry
from grader.practice.watch.files import Files, digest_of, files_of
from grader.practice.watch.link import Link, words_of
from grader.practice.watch.nouns import (
    Cancel,
    Effect,
    Event,
    Grade,
    List,
    Listed,
    Load,
    Loaded,
    Notice,
    Open,
    Reset,
    Start,
    Watch,
)
from grader.submission import places


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
        found = places(exercise, self.submission)
        return next((path for path in found if path.is_file()), found[0])

    def files(self, exercise: Exercise) -> tuple[Path, ...]:
        return files_of(exercise, self.path(exercise), self.root)

    def load(self, name: str) -> Loaded:
        """Raises AuthorError where the exercise's folder is at fault."""
        exercise = catalog.load(name, self.root)
        return Loaded(exercise=exercise, path=self.path(exercise), digest=digest_of(self.files(exercise)))


class Worker(Protocol):
    """What Effects needs of a link; a test has its own."""

    def send(self, command: dict[str, object]) -> None: ...
    def hang_up(self) -> None: ...
    def close(self) -> None: ...


Emit = Callable[[Event], None]
StartWorker = Callable[[int, list[str], Emit], Worker]


@dataclass(slots=True)
class Effects:
    """Carries out effects. What comes of them later is emitted as events, from any thread."""

    place: Place
    emit: Emit
    start_worker: StartWorker = Link
    _workers: list[Worker] = field(default_factory=list)
    _files: Files | None = None
    _entries: tuple[Entry, ...] = ()
    _looking: threading.Thread | None = None

    def carry_out(self, effect: Effect) -> Event | None:
        """What comes of it at once, so that a key which is pressed meanwhile finds it done. Never raises for what a
        person or a machine did: that is told."""
        try:
            return self._do(effect)
        except GraderError as error:
            return Notice(text=str(error))
        except OSError as error:
            return Notice(text=f"That did not work: {error.strerror or error}.")

    def close(self) -> None:
        """End every worker and wait for it; no longer hear of saves."""
        if self._files:
            self._files.close()
        for worker in self._workers:
            worker.hang_up()
        for worker in self._workers:
            worker.close()

    def _do(self, effect: Effect) -> Event | None:
        match effect:
            case Start():
                self._start(effect)
            case Watch():
                self._watch(effect)
            case Grade():
                self._workers[-1].send({"do": "grade", "seed": effect.seed, "trace": effect.trace})
            case Cancel():
                self._workers[-1].send({"do": "cancel"})
            case Load():
                return self.place.load(effect.name)
            case List():
                return self._list()
            case Open():
                return Notice(text=self._open(effect))
            case Reset():
                return Notice(text=_reset(effect.exercise, self.place.root))
        return None

    def _start(self, effect: Start) -> None:
        for worker in self._workers:
            worker.hang_up()
        place = self.place
        words = words_of(effect.name, place.root, place.submission, place.sandbox)
        self._workers.append(self.start_worker(effect.worker, words, self.emit))

    def _watch(self, effect: Watch) -> None:
        if self._files:
            self._files.close()
        self._files = Files(self.place.files(effect.exercise), effect.digest, self.emit)

    def _list(self) -> Listed:
        """What is known of the exercises, at least their names; a thread looks how they stand now."""
        if self._looking is None or not self._looking.is_alive():
            self._looking = threading.Thread(target=self._look, name="list", daemon=True)
            self._looking.start()
        names = catalog.all_names(self.place.root)
        known = {entry.name: entry for entry in self._entries}
        return Listed(entries=tuple(known.get(name, Entry(name=name, exercise=None)) for name in names))

    def _look(self) -> None:
        root = self.place.root
        try:
            self._entries = tuple(overview.entries(root, history.passed_names(root)))
        except (GraderError, OSError) as error:
            self.emit(Notice(text=str(error)))
        else:
            self.emit(Listed(entries=self._entries, since=True))

    def _open(self, effect: Open) -> str:
        """Write the page or the timelines, and show them where there is a screen for that."""
        name = effect.report.exercise.name
        path = folder() / (f"{name}.html" if effect.kind == "report" else f"{name}.trace.json")
        files.write(path, rendered(effect.kind, effect.report))
        if effect.kind == "trace":
            return f"The timelines are in {path}; open that file in ui.perfetto.dev."
        return f"{'Opened' if opened(path) else 'The report is'} {path}"


def rendered(kind: str, report: Report) -> str:
    if kind == "trace":
        from grader.render import chrome

        return chrome.render(report)
    from grader.render import html

    return html.render(alone(report), by=calling.way())


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
