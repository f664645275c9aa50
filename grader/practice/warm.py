"""A worker that is kept warm for whoever grades one file again and again and waits for each report: a cell of a
notebook, an interview, a mend."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.model import Report
from grader.model.errors import Cancelled, RunError, UsageError
from grader.model.words import count
from grader.practice.watch.link import Link, words_of
from grader.practice.watch.nouns import Ended, Event, Said

Tell = Callable[[Mapping[str, Any]], object]
CANCELLING_SECONDS = 5.0
"""How long a worker may take to end its ranks when it is told to, before it is ended itself."""


class Warm:
    """Grades a submission for an exercise, one time after the other. Only the first grade waits for torch, and not even
    that one where `begin` was called while there was something to read.

    The worker hears of this process's end by the end of its input, whatever ended this process."""

    def __init__(self) -> None:
        self._worker: _Worker | None = None

    def begin(self, name: str, root: Path, submission: Path) -> None:
        """Start what grading takes, unless it is there; nobody waits for it."""
        if self._worker is None or self._worker.of != (name, root, submission):
            self.close()
            self._worker = _Worker(name, root, submission)

    def grade(
        self,
        name: str,
        root: Path,
        submission: Path,
        tell: Tell,
        *,
        seed: int | None = None,
        trace: bool = False,
        only: Sequence[str] = (),
    ) -> Report:
        """The report of a file as it is now, as a student may see it; of these checks alone where some are named.
        `tell` hears the worker's events. An interrupt ends the ranks and keeps the session. Raises UsageError,
        RunError or Cancelled."""
        self.begin(name, root, submission)
        assert self._worker is not None
        try:
            return self._worker.grade({"do": "grade", "seed": seed, "trace": trace, "only": list(only)}, tell)
        except BaseException:
            if not self._worker.sound:
                self.close()
            raise

    def close(self) -> None:
        """End the worker and its ranks."""
        if self._worker is not None:
            self._worker.link.close()
            self._worker = None


class _Worker:
    """A worker and what it says. Not `sound` when it has to be replaced."""

    def __init__(self, name: str, root: Path, submission: Path) -> None:
        self.of, self.sound = (name, root, submission), True
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._asked = 0
        self.link = Link(1, words_of(name, root, submission, "auto"), self._events.put)

    def grade(self, command: dict[str, Any], tell: Tell) -> Report:
        self._asked += 1
        self.link.send(command)
        try:
            return self._report(tell)
        except KeyboardInterrupt:
            self._call_off()
            raise

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
