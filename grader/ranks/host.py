"""The warm process that ranks are forked from: torch is imported once, student code never.

The judge starts it with one end of a socket. Each request is a JSON spec and one descriptor, the run's own connection;
each is served by a fork of this process, the run's supervisor. When the judge hangs up, the host ends all and leaves.
Imports nothing heavy at module level: with `spawn`, a rank imports this module as its main module.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import shutil
import signal
import socket
import struct
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from grader.ranks import reaper

READY = b"R"
SCRATCH = "ranklings-"
"""How the name of a session's scratch folder begins, which is the host's working folder."""
MAX_SPEC = 1 << 20
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


def serve(judge: socket.socket) -> None:
    """Fork a supervisor for each request until the judge hangs up."""
    supervisors: set[int] = set()
    signal.signal(signal.SIGCHLD, lambda *_: _reap(supervisors))
    while request := receive(judge):
        spec, descriptor = request
        try:
            pid = os.fork()
        except OSError as error:
            _refuse(descriptor, error)
            continue
        if pid == 0:
            _become_supervisor(judge, spec, descriptor)
        supervisors.add(pid)
        os.close(descriptor)


def _refuse(descriptor: int, error: OSError) -> None:
    """Say that no process could be started for a run: no memory, or too many processes."""
    from grader import wire

    with Connection(descriptor) as connection:
        connection.send_bytes(wire.encode({"fault": f"no process could be started ({error.strerror})"}))


def _become_supervisor(judge: socket.socket, spec: dict[str, Any], descriptor: int) -> None:
    from grader.ranks import supervisor

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    judge.close()
    supervisor.main(spec, Connection(descriptor))


def _reap(supervisors: set[int]) -> None:
    """Collect ended children. What a killed supervisor left behind is a child of ours now and must go."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            supervisors.discard(pid)
            if os.WIFSIGNALED(status):
                reaper.kill_descendants(spare=frozenset(supervisors))


def send(host: socket.socket, spec: dict[str, Any], descriptor: int) -> None:
    """The judge's side of a request."""
    body = json.dumps(spec).encode()
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
        while len(body) < min(length, MAX_SPEC):
            chunk = judge.recv(length - len(body))
            if not chunk:
                return None
            body += chunk
        return json.loads(body), descriptors[0]
    except OSError:
        return None


def main() -> None:
    judge = socket.socket(fileno=int(sys.argv[1]))
    reaper.become_subreaper()
    for name in HUGE_PAGES:
        os.environ.pop(name, None)  # what students start is their own
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the judge, which then hangs up
    preload()
    with contextlib.suppress(BrokenPipeError):
        judge.send(READY)
        serve(judge)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reaper.kill_descendants()
    if Path.cwd().name.startswith(SCRATCH):  # a judge that was killed cannot remove it
        shutil.rmtree(Path.cwd(), ignore_errors=True)
    os._exit(0)  # taking a thousand modules apart would cost a fifth of a second


if __name__ == "__main__":
    main()
