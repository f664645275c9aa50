"""The warm process that ranks are forked from: torch is imported once, student code never.

The judge starts it with one end of a socket. Each request is a wire frame, the run's spec with all its files,
and one descriptor, the run's own connection; each is served by a fork of this process, the run's supervisor. When the
judge hangs up, the host ends all and leaves. It may be inside bubblewrap: it shares no file with the judge.
Imports nothing heavy at module level: with `spawn`, a rank imports this module as its main module.
"""

from __future__ import annotations

import array
import contextlib
import gc
import itertools
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from grader.ranks import folder as folders
from grader.ranks import proof, reaper, sandbox
from grader.records import wire

READY = b"R"
SCRATCH = "ranklings-"
"""How the name of a session's scratch folder begins, which is the host's working folder below bubblewrap."""
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "PYTHONMALLOC": "malloc"}
"""With glibc, the heap asks for huge pages: a fork copies hundreds of page-table entries instead of fifty thousand, and
with its end costs about 5 ms instead of 25. Elsewhere the variables mean nothing."""


def preload() -> None:
    """Import what ranks need, so that no rank pays for it. torch._dynamo is imported by the first optimizer."""
    gc.disable()
    import torch
    import torch._dynamo
    import torch.distributed
    import torch.multiprocessing
    import torch.nn.parallel
    import torch.utils.data

    import grader.ranks.rank
    import grader.ranks.supervisor
    import grader.ranks.tracer  # noqa: F401

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # keeps the collector from copying the preloaded pages in every rank
    gc.enable()


class Served(NamedTuple):
    """A run under way: its folder, and a copy of its connection, over which the judge hears of a watcher's death."""

    folder: Path
    descriptor: int


def serve(judge: socket.socket) -> None:
    """Fork a supervisor for each request until the judge hangs up."""
    runs: dict[int, Served] = {}
    signal.signal(signal.SIGCHLD, lambda *_: _reap(runs))
    for number in itertools.count():
        if not (request := receive(judge)):
            return
        spec, descriptor = request
        with _undisturbed():
            if not runs:
                _tidy()
            _start(judge, runs, {**spec, "folder": str(Path.cwd() / f"run-{number}")}, descriptor)


def _start(judge: socket.socket, runs: dict[int, Served], spec: dict[str, Any], descriptor: int) -> None:
    try:
        pid = os.fork()
    except OSError as error:
        _say(descriptor, {"fault": f"no process could be started ({error.strerror})"})
        _end(descriptor)
        return
    if pid == 0:
        for other in runs.values():
            os.close(other.descriptor)
        _become_supervisor(judge, spec, descriptor)
    runs[pid] = Served(Path(spec["folder"]), descriptor)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """No child is reaped meanwhile, so that none ends before it is known."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _tidy() -> None:
    """Inside bubblewrap all files are this session's own: what earlier runs have left anywhere goes."""
    if Path.cwd() != Path(sandbox.SCRATCH):
        return
    mounted = folders.mounted()
    for folder in (Path.cwd(), Path("/tmp"), Path("/dev/shm")):
        with contextlib.suppress(OSError):
            folders.clear(folder, mounted)


def _say(descriptor: int, message: dict[str, Any]) -> None:
    """A word to the judge about a run."""
    connection = Connection(os.dup(descriptor))
    with contextlib.suppress(OSError), connection:
        connection.send_bytes(wire.encode(message))


def _end(descriptor: int) -> None:
    """Tell the judge that the run is over and nothing of it is left."""
    with contextlib.suppress(OSError), Connection(descriptor) as connection:
        connection.send_bytes(b"")


def _become_supervisor(judge: socket.socket, spec: dict[str, Any], descriptor: int) -> None:
    from grader.ranks import supervisor

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    judge.close()
    supervisor.main(spec, Connection(descriptor))


def _reap(runs: dict[int, Served]) -> None:
    """Collect ended children. What a killed supervisor left behind is a child of ours now and must go."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                break
            if os.WIFSTOPPED(status):  # nobody stops a supervisor but a student's process
                os.kill(pid, signal.SIGKILL)
                continue
            if (run := runs.pop(pid, None)) is None:
                continue
            if os.WIFSIGNALED(status):
                reaper.kill_descendants(spare=frozenset(runs))
                _say(run.descriptor, {"fault": "the process that watches the ranks was killed", "killed": True})
            folders.remove(run.folder)
            _end(run.descriptor)


def send(host: socket.socket, spec: dict[str, Any], descriptor: int) -> None:
    """The judge's side of a request."""
    body = wire.encode(spec)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    host.sendmsg([struct.pack(">I", len(body))], rights)
    host.sendall(body)


def receive(judge: socket.socket) -> tuple[dict[str, Any], int] | None:
    """The next request, or None when the judge has hung up."""
    try:
        head, descriptors, _, _ = socket.recv_fds(judge, 4, 1)
        if len(head) < 4 or not descriptors:
            return None
        (length,) = struct.unpack(">I", head)
        body = bytearray()
        while len(body) < length:
            chunk = judge.recv(length - len(body))
            if not chunk:
                return None
            body += chunk
        return wire.decode(body), descriptors[0]
    except OSError:
        return None


def main() -> None:
    """`python -m grader.ranks.host DESCRIPTOR LEVEL CLAIMS`"""
    judge = socket.socket(fileno=int(sys.argv[1]))
    level, claims, variables = sys.argv[2], json.loads(sys.argv[3]), frozenset(os.environ)
    reaper.become_subreaper()
    for name in HUGE_PAGES:
        os.environ.pop(name, None)  # what students start is their own
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the judge, which then hangs up
    preload()
    reaper.hide()
    found = proof.breaches(level, claims, variables)
    with contextlib.suppress(BrokenPipeError):
        answer = json.dumps(found).encode()
        judge.sendall(READY + struct.pack(">I", len(answer)) + answer)
        serve(judge)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reaper.kill_descendants()
    if Path.cwd().name.startswith(SCRATCH):  # a judge that was killed cannot remove it
        folders.remove(Path.cwd())
    os._exit(0)  # taking a thousand modules apart would cost a fifth of a second


if __name__ == "__main__":
    main()
