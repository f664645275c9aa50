"""What an actor of Ray does for its slot: it starts a worker by exec, and passes one unit of work on to it at a time.

It is imported in Ray's processes, so it knows this package's process and nothing else: no torch, no pytest, no file of
a student is ever imported there.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from grader.batch.seam import Work
from grader.batch.slots.process import WorkerProcess


class SlotActor:
    """One worker. Its calls come one after another; each returns an event, as the worker told it or of its end:

    {"event": "up", "pid": 7} · {"event": "graded", …} · {"event": "refused", …} ·
    {"event": "ended", "sentence": "…", "log": b"…", "gave_up": true}
    """

    def __init__(self, words: Sequence[str], program: Sequence[str] = ()) -> None:
        self._worker = WorkerProcess(words, program)
        self._events: Iterator[dict[str, Any]] = self._worker.events()
        leave_with_parent()

    def up(self) -> dict[str, Any]:
        """Waits until the worker can grade."""
        return next(({"event": "up", "pid": self._worker.pid} for _ in self._told("ready")), None) or self._end()

    def grade(self, work: Work) -> dict[str, Any]:
        """Waits until the unit is graded or refused."""
        self._worker.ask(work)
        answers = (event for event in self._told("graded", "refused") if event.get("unit") == work.unit)
        return next(answers, None) or self._end()

    def _told(self, *kinds: str) -> Iterator[dict[str, Any]]:
        return (event for event in self._events if event.get("event") in kinds)

    def _end(self) -> dict[str, Any]:
        sentence, log = self._worker.last_words()
        return {"event": "ended", "sentence": sentence, "log": log, "gave_up": self._worker.gave_up}


def leave_with_parent() -> None:
    """End this process, and so its worker, at once when the one that started it has ended: Ray looks only now and
    then."""
    with contextlib.suppress(OSError, AttributeError):  # an old kernel
        parent = os.pidfd_open(os.getppid())
        threading.Thread(target=_await_end, args=(parent,), daemon=True).start()


def _await_end(process: int) -> None:
    select.select([process], [], [])
    os._exit(1)
