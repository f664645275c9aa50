"""The worker as a subprocess: commands go in, its events come out in a thread."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from grader.practice.watch.nouns import Ended, Event, Said
from grader.records.reading import report_of

LEAVING_SECONDS = 15
"""How long a worker may take to end its ranks and itself, before it is killed."""


class Link:
    """One worker, from its start to its end. `emit` is called from a thread of the link's own."""

    def __init__(self, number: int, words: Sequence[str], emit: Callable[[Event], None]) -> None:
        self._number, self._emit, self._left = number, emit, False
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker
        self._process = subprocess.Popen(
            [sys.executable, "-m", "grader.practice.worker", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C in the terminal is for the face, which then ends the worker
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, command: dict[str, Any]) -> None:
        """Say it to the worker. One that is gone hears nothing; that it is gone is told by its own event."""
        with contextlib.suppress(OSError, ValueError):
            assert self._process.stdin
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()

    def hang_up(self) -> None:
        """Let the worker end; nothing that it still says is told."""
        self._left = True
        with contextlib.suppress(OSError, ValueError):
            assert self._process.stdin
            self._process.stdin.close()

    def close(self) -> None:
        """End the worker, and with it every rank, and wait until it is gone."""
        self.hang_up()
        try:
            self._process.wait(timeout=LEAVING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.stdout:
                if not self._left and (said := said_of(self._number, line)):
                    self._emit(said)
        self._process.wait()
        if not self._left:
            self._emit(Ended(worker=self._number, reason=self._last_word()))
        self._errors.close()

    def _last_word(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        code = self._process.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"The process that grades has ended ({how}){f': {lines[-1]}' if lines else '.'}"


def words_of(name: str, root: Path, submission: Path | None, sandbox: str) -> list[str]:
    """The arguments of a worker's command."""
    chosen = ["--submission", str(submission)] if submission else []
    return [name, "--root", str(root), "--sandbox", sandbox, *chosen]


def said_of(worker: int, line: bytes) -> Said | None:
    """An event from a line, with its report made a value again; None where the line is no event."""
    try:
        event = json.loads(line)
        report = report_of(event.pop("report")) if event["event"] == "report" else None
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError):
        return None
    return Said(worker=worker, event=event, report=report)
