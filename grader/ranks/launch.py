"""The judge's side of running ranks: a warm host, a private scratch folder, and data coming back."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from grader import wire
from grader.errors import RunError, WireError
from grader.model import Case, Exercise, RankRecord, Run, Submission
from grader.ranks import host
from grader.ranks.diagnosis import diagnose
from grader.ranks.endings import ending_of
from grader.trace import trace_of

START_SECONDS = 120
"""How long the host may take to import torch on a slow machine."""
MARGIN_SECONDS = 120
"""How long after a case's deadline the supervisor may take to say what happened, on a machine that is overloaded."""
KEPT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "TZ",
    "VIRTUAL_ENV",
)


def environment(scratch: Path) -> dict[str, str]:
    """What ranks get of the environment: a whitelist, one thread, loopback, the Flight Recorder."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    package = str(Path(__file__).resolve().parents[2])
    loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    return {
        **kept,
        **({"GLOO_SOCKET_IFNAME": loopback} if loopback else {}),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "PYTHONPATH": package,
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TORCH_FR_BUFFER_SIZE": "2000",
        **host.HUGE_PAGES,
    }


class Session:
    """A warm host. Entering it starts the host, which imports torch while the judge does other things."""

    def __init__(self, start_method: str = "forkserver") -> None:
        self.start_method = start_method
        self._stack = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._ready = False

    def __enter__(self) -> Session:
        self.scratch = self._folder(host.SCRATCH, None)
        self._stack.callback(shutil.rmtree, self.scratch, ignore_errors=True)
        self._socket, theirs = socket.socketpair()
        self._stack.callback(self._socket.close)
        with theirs:
            theirs.set_inheritable(True)
            self._host = subprocess.Popen(
                [sys.executable, "-m", "grader.ranks.host", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=(self.scratch / "host.log").open("w"),
                env=environment(self.scratch),
                cwd=self.scratch,
                start_new_session=True,
            )
        self._stack.callback(self._end_host)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the host and every run that is under way. Calling it again does nothing."""
        self._stack.close()

    def _end_host(self) -> None:
        """Hang up; the host then ends every run. Kill it if it does not leave."""
        self._socket.close()
        try:
            self._host.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._host.kill()
            self._host.wait()

    def _await_ready(self) -> None:
        if self._ready:
            return
        self._socket.settimeout(START_SECONDS)
        try:
            answer = self._socket.recv(1)
        except OSError:
            answer = b""
        if answer != host.READY:
            log = (self.scratch / "host.log").read_text(errors="replace").strip().splitlines()
            raise RunError(
                f"The process that ranks start from did not come up: {log[-1] if log else 'it said nothing'}"
            )
        self._socket.settimeout(None)
        self._ready = True

    def run(self, exercise: Exercise, submission: Submission, case: Case) -> Run:
        """Run one case. Blocks until no rank and nothing that one started is left. Raises RunError where
        the machine is at fault.

        Runs may overlap in threads of one session.
        """
        with self._lock:
            self._await_ready()
        folder = self._folder("run-", self.scratch)
        try:
            return self._run(exercise, submission, case, folder)
        except OSError as error:
            reason = error.strerror or str(error)
            raise RunError(
                f"The scratch folder {folder} could not be used: {reason}. Set TMPDIR to one with room."
            ) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _folder(self, prefix: str, parent: Path | None) -> Path:
        try:
            return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        except OSError as error:
            where = parent or "the temporary folder"
            raise RunError(
                f"No scratch folder could be made in {where}: {error.strerror}. Set TMPDIR to one with room."
            ) from error

    def _run(self, exercise: Exercise, submission: Submission, case: Case, folder: Path) -> Run:
        start = time.monotonic()
        spec = _lay_out(exercise, submission, case, folder) | {"start_method": self.start_method}
        mine, theirs = socket.socketpair()
        connection = Connection(mine.detach())
        with connection:
            with theirs, self._lock:
                host.send(self._socket, spec, theirs.fileno())
            messages = _receive_all(connection, case.deadline + MARGIN_SECONDS)
        records = _records(messages, exercise.file)
        seconds = time.monotonic() - start
        return Run(case=case, ranks=records, seconds=seconds, diagnosis=diagnose(case, records, exercise.file))


def _lay_out(exercise: Exercise, submission: Submission, case: Case, folder: Path) -> dict[str, Any]:
    """The run's private copy of all that ranks read, and the spec that says where it lies."""
    code, shared = folder / "code", folder / "shared"
    code.mkdir()
    shared.mkdir()
    (code / exercise.file).write_bytes(submission.source)
    for name, source in submission.companions.items():
        (code / f"{name.partition('_')[2]}.py").write_bytes(source)
    probe = exercise.folder / "probe.py"
    if probe.exists():
        shutil.copyfile(probe, code / "probe.py")
    return {
        "file": exercise.file,
        "requires": [[required.name, required.signature] for required in exercise.requires],
        "code": str(code),
        "shared": str(shared),
        "scratch": str(folder),
        "world_size": case.world_size,
        "seed": case.seed,
        "deadline": case.deadline,
        "parameters": dict(case.parameters),
        "environment": dict(case.environment),
        "probe": case.probe,
        "process_group": case.process_group,
        "hold_group": case.hold_group,
        "trace": case.trace,
    }


def _receive_all(connection: Connection, seconds: float) -> list[bytes]:
    """What the supervisor says, up to its empty message or its end. Raises RunError if it says neither in time."""
    until = time.monotonic() + seconds
    messages: list[bytes] = []
    with contextlib.suppress(EOFError, ConnectionResetError):
        while connection.poll(max(0.0, until - time.monotonic())):
            if not (message := connection.recv_bytes()):
                return messages
            messages.append(message)
        raise RunError("The process that watches the ranks did not answer. Is this machine overloaded? Try again.")
    return messages


def _records(messages: list[bytes], file: str) -> tuple[RankRecord, ...]:
    """The ranks' records from the supervisor's frames."""
    queue = iter(messages)
    records: list[RankRecord] = []
    for message in queue:
        head = wire.decode(message)
        if "fault" in head:
            raise RunError(f"The ranks could not be run: {head['fault']}")
        if "seconds" in head:
            return tuple(records)
        observations: dict[str, Any] = {}
        for _ in range(head["observations"]):
            observations.update(_observation(next(queue, b"")))
        records.append(
            RankRecord(
                rank=head["rank"],
                ending=ending_of(head["ending"], file),
                observations=observations,
                output=head["output"],
                trace=trace_of(head["trace"]),
            )
        )
    raise RunError("The process that watches the ranks ended before it could say what happened.")


def _observation(frame: bytes) -> Mapping[str, Any]:
    """One observation. A malformed one is as good as none: the check that wants it will say so."""
    try:
        value = wire.decode(frame)
        return {value["name"]: value["value"]} if type(value["name"]) is str else {}
    except (WireError, TypeError, KeyError):
        return {}
