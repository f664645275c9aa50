"""Processes that multiprocessing starts, in a fraction of the time. Its start method "spawn" starts a new interpreter
for each, and "forkserver" one for its server; such an interpreter takes seconds to import torch anew. Here it is a fork
of a server that has torch already, and looks like a new one: the student's modules are imported anew, and nothing that
the caller did since is there.

The server is a fork of the caller, made before anything is called: whatever works at forks, as libuv does once a
TCPStore has used it, would change the descriptors of all that is forked from the server. What it starts is the caller's
own child all the same: it is forked by a process that ends at once, and the kernel gives it to the caller, which is a
subreaper for that moment. Where that cannot be had, and for anything but multiprocessing's own command line, new
interpreters are started.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing import util as multiprocess_util
from pathlib import Path
from typing import Any, NoReturn

import torch

from grader.kit import forks, prctl
from grader.kit.processes import SERVER

SPAWN = "from multiprocessing.spawn import spawn_main; spawn_main("
FORK_SERVER = "from multiprocessing.forkserver import main; main("
"""How the programs begin that multiprocessing hands to a new interpreter, behind `-c`."""
UTIL: Any = multiprocess_util
INTERPRETER = UTIL.spawnv_passfds
"""Multiprocessing's own way to start an interpreter."""
MOST = 250
"""Descriptors that cross at once at most."""
SIZE = 4
"""Bytes of a number that crosses."""


class NoServer(Exception):
    """A new interpreter has to be started."""


@contextlib.contextmanager
def quick_spawns(folder: Path) -> Iterator[None]:
    """Meanwhile processes are spawned so. Modules of this folder are a new process's to import."""
    server = _Server(folder)

    def start(path: Any, args: Sequence[Any], passed: Sequence[int]) -> int:
        try:
            return server.spawned(path, args, passed)
        except NoServer:
            return int(INTERPRETER(path, args, passed))

    UTIL.spawnv_passfds = start
    try:
        yield
    finally:
        UTIL.spawnv_passfds = INTERPRETER
        server.close()


class _Server:
    """The caller's side."""

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._pid = 0
        # a fork of a process that has used the GPU could not use it
        self._over = not prctl.become_subreaper(False) or torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        if not self._over:
            with contextlib.suppress(OSError):
                self._connection, self._pid = _started(folder)

    def spawned(self, path: Any, args: Sequence[Any], passed: Sequence[int]) -> int:
        """The id of a new process with these descriptors. Raises NoServer."""
        words = [os.fsdecode(arg) for arg in args]
        program, *rest = words[words.index("-c") + 1 :] if "-c" in words else [""]
        known = program.startswith((SPAWN, FORK_SERVER)) and os.fsdecode(path) == sys.executable
        if not known or len(passed) > MOST:
            raise NoServer
        told = {
            "program": program, "arguments": ["-c", *rest], "passed": [*map(int, passed)], "folder": os.getcwd(),
            "environment": dict(os.environ), "ignored": _ignored(), "blocked": _blocked(),
        }  # fmt: skip
        with self._lock:
            if self._over or self._connection is None:
                raise NoServer
            try:
                return _asked(self._connection, json.dumps(told).encode(), [0, 1, 2, *map(int, passed)])
            except (OSError, ValueError):
                self.close()
                raise NoServer from None
            except BaseException:  # a call that was broken off: the answer to it would be taken for that to the next
                self.close()
                raise

    def close(self) -> None:
        """End the server; what was spawned goes on."""
        self._over = True
        if self._connection is not None:
            self._connection.close()
            with contextlib.suppress(OSError):
                if os.waitpid(self._pid, os.WNOHANG) == (0, 0):  # else it was killed, or its number is another's now
                    os.kill(self._pid, signal.SIGKILL)
                    os.waitpid(self._pid, 0)


def _asked(server: socket.socket, request: bytes, descriptors: Sequence[int]) -> int:
    prctl.become_subreaper(True)
    try:
        socket.send_fds(server, [len(request).to_bytes(SIZE, "big")], descriptors)
        server.sendall(request)
        return _number(_received(server, SIZE))
    finally:
        prctl.become_subreaper(False)


def _ignored() -> list[int]:
    """Signals that this process ignores, and so what it starts."""
    return [int(each) for each in signal.valid_signals() if signal.getsignal(each) == signal.SIG_IGN]


def _blocked() -> list[int]:
    return [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])]


def _received(connection: socket.socket, size: int) -> bytes:
    """So many bytes. Raises ValueError where they end before."""
    data = b""
    while len(data) < size:
        if not (more := connection.recv(size - len(data))):
            raise ValueError("the other end was closed")
        data += more
    return data


def _number(data: bytes) -> int:
    """The id of a process. Raises ValueError for none."""
    if not (number := int.from_bytes(data, "big")):
        raise ValueError("no process could be started")
    return number


# -- the server -------------------------------------------------------------------------------------------------------


def _started(folder: Path) -> tuple[socket.socket, int]:
    """A server, and its process's id. One whose descriptors the fork has changed ends at once."""
    mine, theirs = socket.socketpair()
    with theirs:
        before = forks.descriptors()
        if pid := os.fork():
            return mine, pid
        try:
            if not forks.changed_since(before):
                _serve(theirs, folder)
        finally:
            os._exit(1)


def _serve(caller: socket.socket, folder: Path) -> None:
    """Start a process for each request, until the caller hangs up."""
    own = Path("/proc/self/comm").read_text()
    _forget(folder, keep=caller.fileno())
    _call_this(SERVER)
    while True:
        size, descriptors, *_ = socket.recv_fds(caller, SIZE, MOST + 3)
        if len(size) < SIZE:
            return
        told = json.loads(_received(caller, int.from_bytes(size, "big")))
        pid = _forked(told, descriptors, own)
        for descriptor in descriptors:
            os.close(descriptor)
        caller.sendall(pid.to_bytes(SIZE, "big"))


def _call_this(name: str) -> None:
    Path("/proc/self/comm").write_text(name)


def _forget(folder: Path, keep: int) -> None:
    """Be as near to an interpreter that has just imported torch as a copy of the caller can be."""
    gc.disable()
    gc.freeze()  # what was here before is never finalized here
    forks.reset_signals()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.closerange(3, keep)
    os.closerange(keep + 1, forks.most_descriptors())
    for name, module in list(sys.modules.items()):
        if (file := getattr(module, "__file__", None)) and Path(file).is_relative_to(folder):
            del sys.modules[name]
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.path[:] = ["", *(place for place in sys.path if place != str(folder))]
    forks.reset_multiprocessing()
    tracker: Any = resource_tracker._resource_tracker
    server: Any = forkserver._forkserver
    tracker._fd = tracker._pid = None
    server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None
    atexit._clear()
    atexit.register(logging.shutdown)
    atexit.register(UTIL._exit_function)
    UTIL.spawnv_passfds = INTERPRETER  # what a new process starts is like everybody's


def _forked(told: Mapping[str, Any], descriptors: Sequence[int], name: str) -> int:
    """The id of a process whose parent is the caller; 0 if it could not be started."""
    told_id, tells_id = os.pipe()
    goes, go = os.pipe()
    try:
        if not (middle := os.fork()):
            try:
                os.close(go)
                if child := os.fork():
                    os.write(tells_id, child.to_bytes(SIZE, "big"))
            except BaseException:
                os._exit(1)
            if child:
                os._exit(0)
            os.read(goes, 1)  # its end is that the one between has gone
            _become(told, descriptors, name)
        os.close(tells_id)
        os.waitpid(middle, 0)
        os.close(go)
        return int.from_bytes(os.read(told_id, SIZE), "big")
    except OSError:
        return 0
    finally:
        os.close(told_id)
        os.close(goes)


def _become(told: Mapping[str, Any], descriptors: Sequence[int], name: str) -> NoReturn:
    """Do what the new interpreter does."""
    code = 1
    try:
        _look_new(told, descriptors)
        if told["program"].startswith(SPAWN):  # the other is still a server, of multiprocessing's
            _call_this(name)
        main = compile(told["program"], "<string>", "exec", dont_inherit=True)
        code = forks.exit_code(lambda: exec(main, vars(sys.modules["__main__"])))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _look_new(told: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Have these descriptors, and what else a new interpreter has of the caller."""
    targets = [0, 1, 2, *told["passed"]]
    most = max(forks.most_descriptors(), max(targets) + 1)
    held = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, most) for descriptor in descriptors]
    os.closerange(3, most)
    for number, target in zip(held, targets, strict=True):
        os.dup2(number, target)
    os.closerange(most, max(held) + 1)
    forks.open_streams()
    os.environ.clear()
    os.environ.update(told["environment"])
    os.chdir(told["folder"])
    for number in told["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, told["blocked"])
    forks.reset_generators()
    sys.argv[:] = told["arguments"]
    gc.enable()
