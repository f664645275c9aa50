"""What tests of watch mode share: a worker that is none, and the small exercise with a file that passes."""

from __future__ import annotations

import queue
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.practice.watch.effects import Effects, Place
from grader.practice.watch.loop import Loop
from grader.practice.watch.nouns import Ended, Event, Said
from grader.practice.watch.state import begin
from tests import small

STUCK = [
    {"rank": 0, "told": "waits in barrier", "line": 9},
    {"rank": 1, "told": "waits in all_reduce", "line": 9},
]


def solution(root: Path) -> str:
    return (root / "reference" / small.NAME / "total.py").read_text()


def file_of(root: Path) -> Path:
    return root / "exercises" / small.NAME / "total.py"


@dataclass
class FakeWorker:
    """Hears commands and says what a test lets it say."""

    number: int
    words: list[str]
    emit: Callable[[Event], None]
    commands: list[dict[str, Any]] = field(default_factory=list)
    open: bool = True

    def send(self, command: dict[str, object]) -> None:
        self.commands.append(command)

    def hang_up(self) -> None:
        self.open = False

    def close(self) -> None:
        self.open = False

    @property
    def grade(self) -> int:
        return sum(command["do"] == "grade" for command in self.commands)

    def say(self, event: str, report: Any = None, **facts: Any) -> None:
        self.emit(Said(worker=self.number, event={"event": event, "grade": self.grade, **facts}, report=report))

    def die(self) -> None:
        self.emit(Ended(worker=self.number, reason="The process that grades has ended (signal 9)."))


@dataclass
class Office:
    """A loop with fake workers, on the small exercise or a copy of it under another name."""

    root: Path
    events: queue.SimpleQueue[Event | None] = field(default_factory=queue.SimpleQueue)
    workers: list[FakeWorker] = field(default_factory=list)
    reports: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        small.build(self.root)
        shutil.copytree(self.root / "exercises" / small.NAME, self.root / "exercises" / "91_total")
        place = Place(root=self.root)
        self.effects = Effects(place, self.events.put, self.start_worker)
        loaded = place.load(small.NAME)
        names = (small.NAME, "91_total")
        state = begin(loaded.exercise, loaded.path, names, digest=loaded.digest)
        self.loop = Loop(state, self.effects, self.reports.append)

    @property
    def worker(self) -> FakeWorker:
        return self.workers[-1]

    def start_worker(self, number: int, words: list[str], emit: Callable[[Event], None]) -> FakeWorker:
        self.workers.append(FakeWorker(number, words, emit))
        return self.worker
