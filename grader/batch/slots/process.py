"""A worker (`grader.batch.worker`) as a subprocess: what both engines start, on this machine or from an actor.

Standard library and this package's seam only: nothing here may bring torch, pytest or anybody's file into an actor.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from grader.batch.seam import Graded, Refused, Work

PROJECT = Path(__file__).resolve().parents[3]
LEAVING_SECONDS = 2.0
"""How long a worker may take to end its ranks and itself, before it is killed. It takes 1.9 s at most."""
LOOKING_SECONDS = 1.0
MAX_LOG = 64 * 1024


class WorkerProcess:
    """One worker, from its start to its end. `words` are its arguments, or the whole command in `program`."""

    def __init__(self, words: Sequence[str], program: Sequence[str] = ()) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker
        self._process = subprocess.Popen(
            [*(program or (sys.executable, "-m", "grader.batch.worker")), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), *_paths()])},
            start_new_session=True,  # Ctrl-C in the terminal is for the driver, which then ends the worker
        )
        self._writing = threading.Lock()
        threading.Thread(target=self._look, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def gave_up(self) -> bool:
        """Whether it has ended by itself, for a fault of the machine: no unit of work has that effect."""
        return (self._process.returncode or 0) > 0

    def ask(self, work: Work) -> None:
        """Send a unit of work. May wait for as long as the worker does not read. One that is gone hears nothing."""
        files = [[name, base64.b64encode(content).decode()] for name, content in work.files]
        command = {
            "do": "grade", "unit": work.unit, "exercise": work.exercise, "files": files, "seed": work.seed,
            "checks": work.checks, "deadline": work.deadline, "runs": base64.b64encode(work.runs).decode(),
        }  # fmt: skip
        assert self._process.stdin
        with self._writing, contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()

    def events(self) -> Iterator[dict[str, Any]]:
        """What the worker says, until it ends. Lines that are no event are left out."""
        assert self._process.stdout
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.stdout:
                with contextlib.suppress(ValueError):
                    event = json.loads(line)
                    if isinstance(event, dict):
                        yield event

    def last_words(self) -> tuple[str, bytes]:
        """Waits for the end of a worker that says nothing more. How it ended, in a sentence, and its log."""
        code = self._process.wait()
        log = os.pread(self._errors.fileno(), MAX_LOG, 0)
        lines = log.decode(errors="replace").strip().splitlines()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        said = f": {lines[-1]}" if code > 0 and lines else "."
        return f"The process that grades has ended ({how}){said}", log

    def hang_up(self) -> None:
        """Let the worker end, without waiting for it."""
        self._process.terminate()
        if self._writing.acquire(blocking=False):  # somebody may wait there for a worker that does not read
            try:
                if self._process.stdin:
                    self._process.stdin.close()
            except (OSError, ValueError):
                pass  # what could not be written any more
            finally:
                self._writing.release()

    def close(self, seconds: float = LEAVING_SECONDS) -> None:
        """Wait until the worker is gone; one that takes longer is killed, and the kernel tells its hosts."""
        try:
            self._process.wait(timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _look(self) -> None:
        """End the worker where a signal has stopped it, which below bubblewrap any process of the user can send: it
        would never answer."""
        while True:
            try:
                self._process.wait(timeout=LOOKING_SECONDS)
            except subprocess.TimeoutExpired:
                if _is_stopped(self.pid):
                    self._process.kill()
            else:
                return


def _paths() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T"
    return False


def answer_of(slot: str, event: dict[str, Any]) -> Graded | Refused | None:
    """What an event tells of a unit of work; None where it tells of none."""
    with contextlib.suppress(LookupError, TypeError, ValueError, AttributeError):
        log = event["log"].encode(errors="replace")
        if event["event"] == "refused":
            return Refused(slot=slot, unit=event["unit"], sentence=event["sentence"], log=log)
        if event["event"] == "graded":
            return Graded(
                slot=slot,
                unit=event["unit"],
                report=event["report"].encode(errors="replace"),
                runs=base64.b64decode(event["runs"]),
                log=log,
                seconds=float(event["seconds"]),
                busy=float(event["busy"]),
                cpu=float(event["cpu"]),
            )
    return None
