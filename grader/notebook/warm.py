"""The warm session behind a notebook: the worker of one exercise, which lives as long as the kernel does."""

from __future__ import annotations

import contextlib
import queue
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader.model import Report
from grader.model.errors import Cancelled, RunError, UsageError
from grader.model.words import count
from grader.practice.watch.link import Link, words_of
from grader.practice.watch.nouns import Ended, Event, Said

Tell = Callable[[Mapping[str, Any]], object]
CELL = Path("the cell")
CANCELLING_SECONDS = 5.0
"""How long a worker may take to end its ranks when it is told to, before it is ended itself."""


class Warm:
    """Grades cells one after the other. The first of an exercise waits for torch, the others do not.

    The worker hears of the kernel's end by the end of its input, whatever ended the kernel."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ranklings-cell-", ignore_cleanup_errors=True)
        self._worker: _Worker | None = None
        weakref.finalize(self, self._folder.cleanup)

    def grade(self, name: str, root: Path, source: str, tell: Tell, *, seed: int | None, trace: bool) -> Report:
        """The report of a cell. `tell` hears the worker's events. Raises Cancelled when interrupted."""
        worker = self._of(name, root)
        worker.file.write_text(source, encoding="utf-8", errors="surrogatepass")
        try:
            report = worker.grade({"do": "grade", "seed": seed, "trace": trace}, tell)
        except BaseException:
            if not worker.sound:
                self.close()
            raise
        return replaced(report)

    def close(self) -> None:
        """End the worker and its ranks."""
        if self._worker is not None:
            self._worker.link.close()
            self._worker = None

    def _of(self, name: str, root: Path) -> _Worker:
        if self._worker is None or self._worker.of != (name, root):
            self.close()
            self._worker = _Worker(name, root, Path(self._folder.name) / "cell.py")
        return self._worker


class _Worker:
    """A worker and what it says. Not `sound` when it has to be replaced."""

    def __init__(self, name: str, root: Path, file: Path) -> None:
        self.of, self.file, self.sound = (name, root), file, True
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._asked = 0
        self.link = Link(1, words_of(name, root, file, "auto"), self._events.put)

    def grade(self, command: dict[str, Any], tell: Tell) -> Report:
        self._asked += 1
        self.link.send(command)
        try:
            return self._report(tell)
        except KeyboardInterrupt:
            self._call_off()
            raise Cancelled() from None

    def _report(self, tell: Tell) -> Report:
        while True:
            said = self._next(None)
            tell(said.event)
            match said.event:
                case {"event": "report"} if said.report is not None:
                    return said.report
                case {"event": "fault", "sentence": sentence}:
                    raise UsageError(str(sentence))
                case {"event": "cancelled"}:
                    raise Cancelled()

    def _next(self, seconds: float | None) -> Said:
        """What the worker says next of the last grade that was asked for. Raises RunError where it has ended."""
        while True:
            event = self._events.get(timeout=seconds)
            if isinstance(event, Ended):
                self.sound = False
                raise RunError(event.reason)
            if isinstance(event, Said) and event.event.get("grade") in (None, self._asked):
                return event

    def _call_off(self) -> None:
        """End the ranks and keep the session, if that takes no longer than it should."""
        self.link.send({"do": "cancel"})
        with contextlib.suppress(RunError):
            try:
                while self._next(CANCELLING_SECONDS).event.get("event") not in ("cancelled", "report", "fault"):
                    pass
            except (queue.Empty, KeyboardInterrupt):
                self.sound = False


def replaced(report: Report) -> Report:
    """The report with the cell in place of the file that it was written to."""
    return replace(report, submission=replace(report.submission, path=CELL))


def phase_of(event: Mapping[str, Any]) -> str:
    """What an event says of how far a grade is; empty for one that says nothing of it."""
    match event:
        case {"event": "began", "cases": cases, "checks": checks}:
            return f"{count(len(cases), 'run')}, {count(len(checks), 'check')}"
        case {"event": "case", "case": case}:
            return str(case)
        case {"event": "live", "case": case, "ranks": [_, *_]}:
            return f"{case} stands still"
    return ""
