"""What every process has that grades for another one: a worker that reads commands and writes events, a JSON object a
line, on streams that are its own, and that is gone a moment after its input, with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, NoReturn

from grader import leaving

if TYPE_CHECKING:
    from grader.grading.sessions import AnySession
    from grader.model import Report


class Leave(KeyboardInterrupt):
    """The worker is to end. Of KeyboardInterrupt's kind, because pytest lets nothing else through."""


def leave() -> None:
    """End the main thread as SIGTERM does, from any thread."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


@contextlib.contextmanager
def obeying_signals() -> Iterator[None]:
    """The first signal to end raises Leave in the main thread; no later one disturbs the cleaning up, and the process
    ends soon whatever comes of that."""
    stop = leaving.Stop(lambda number: Leave(), lambda number: 0, once=True)
    for number in leaving.INTERRUPTS:
        signal.signal(number, stop)
    with leaving.insisted():
        yield


def own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Input and output for the worker alone: whatever else prints does so to the errors, and reads nothing."""
    commands, events = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return commands, events


def listen(commands: IO[bytes], obey: Callable[[dict[str, Any]], bool], patience: float = leaving.PATIENCE) -> None:
    """Hand over each command until `obey` says that it was the last one, or nobody gives any. Then leave; an orderly
    end may take so many seconds."""
    with contextlib.suppress(OSError, ValueError):
        for line in commands:
            if obey(_command(line)):
                break
    leaving.leave_soon(0, patience)  # the main thread may hear no signal before long, as in the import of torch
    leave()


def _command(line: bytes) -> dict[str, Any]:
    """A command, or an empty one where a line is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class LineWriter:
    """Writes whole lines, from any thread. Calls `lost` where nobody listens any more."""

    def __init__(self, stream: IO[bytes], lost: Callable[[], None] = leave) -> None:
        self._stream, self._lost, self._lock = stream, lost, threading.Lock()

    def write(self, line: str) -> None:
        with self._lock:
            try:
                self._stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
                self._stream.flush()
            except (OSError, ValueError):
                self._lost()


def is_sound(session: AnySession, report: Report) -> bool:
    """Whether a session that gave this report may give the next one: nothing of it can have been damaged."""
    return session.alive and report.status != "error" and not any(run.retried for run in report.runs)


def own_fault(error: Exception) -> str:
    """The sentence for an error that nobody foresaw."""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return f"The grader itself went wrong ({words[:200]}). This is not your fault."


def end_at_once(code: int) -> NoReturn:
    """End this process: a daemon thread may hold the input's lock, on which an orderly end would wait."""
    sys.stderr.flush()
    os._exit(code)
