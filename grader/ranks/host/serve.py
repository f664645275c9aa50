"""The warm process that ranks are forked from: torch is imported once, student code never.

The judge starts it with one end of a socket. Each request is a wire frame, the run's spec with all its files,
and one descriptor, the run's own connection; each is served by a fork of this process, the run's supervisor. When the
judge hangs up, the host ends all and leaves. It may be inside bubblewrap: it shares no file with the judge.
Imports nothing heavy at module level: with `spawn`, a rank imports this module as its main module.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pkgutil
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from grader.model.run import PROBE
from grader.ranks.host import pages, tidy
from grader.ranks.host.protocol import FOLDER, TMP, receive
from grader.ranks.request import Request
from grader.ranks.watch import folder, reaper
from grader.records import wire

MANY = 24
"""Runs after which a session is one of many runs: the next time that it stands still, it makes them cheaper."""


def preload() -> None:
    """Import what all ranks need, so that no rank pays for it."""
    with _without_garbage():
        import torch
        import torch.distributed
        import torch.multiprocessing
        import torch.nn.parallel
        import torch.utils.data

        import grader.kit
        import grader.ranks.inside.opener
        import grader.ranks.inside.rank
        import grader.ranks.inside.tracer
        import grader.ranks.watch.entry
        from grader.kit import gpus, stores
        from grader.ranks.inside import sockets

        for module in pkgutil.iter_modules(grader.kit.__path__):
            importlib.import_module(f"grader.kit.{module.name}")
        stores.NAMES.note()
        torch.set_num_threads(1)
        gpus.count()  # which every run asks, and remembers
        with contextlib.suppress(OSError, AttributeError):
            sockets.understood()


def preload_dynamo() -> None:
    """Import what the first optimizer, DDP and FSDP would. It takes as long as torch itself, so a run that does without
    need not wait for it. Calling it again does nothing."""
    if "torch._dynamo" not in sys.modules:
        with _without_garbage():
            importlib.import_module("torch._dynamo")
            importlib.import_module("torch.distributed.checkpoint.state_dict")  # for those who shard and save
            with contextlib.suppress(ImportError):
                importlib.import_module("torch.utils.serialization.config")  # for torch.save; a newer torch has it
            with importlib.import_module("torch.profiler").record_function("first"):
                pass  # every step of an optimizer is recorded so, the first of a process at ten times the price
            from grader.kit import stores

            stores.NAMES.note()  # in what was imported since


def preload_modules(names: Iterable[str]) -> None:
    """Import what all ranks of an exercise need, once for all of them. One that is not there is the rank's to miss.
    Imported away from where ranks can write, since libraries read settings from the current folder."""
    missing = [name for name in names if name not in sys.modules]
    if missing:
        with _without_garbage(), contextlib.chdir("/"):
            for name in missing:
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
        for thread in threading.enumerate():  # matplotlib starts one; a fork must not come upon it
            if thread is not threading.current_thread():
                thread.join()


@contextlib.contextmanager
def _without_garbage() -> Iterator[None]:
    """What is imported is here to stay: no collection looks at it, so that none copies its pages in every rank."""
    gc.disable()
    yield
    gc.freeze()  # a collection before takes 0.4 s and gives nothing back to the system
    gc.enable()


class Served(NamedTuple):
    """A run under way: its folder, and a copy of its connection, over which the judge hears of a watcher's death."""

    folder: Path
    descriptor: int


def serve(judge: socket.socket, apart: bool, kept: frozenset[int] = frozenset()) -> None:
    """Fork a supervisor for each request until the judge hangs up. `apart` gives each run a network of its own; `kept`
    are children that are no supervisors and are left alone."""
    runs: dict[int, Served] = {}
    number, collapsed = 0, False
    signal.signal(signal.SIGCHLD, lambda *_: _reap(runs, kept))
    while received := receive(judge):
        request, descriptor = received
        if request.dynamo:
            preload_dynamo()
        preload_modules(request.preload)
        with _undisturbed():
            if not runs:
                _tidy()
                if number >= MANY and not collapsed:
                    collapsed = True
                    pages.collapse()
            number += 1
            if PROBE in request.files:
                folder.compiled(request.files[PROBE])  # which the supervisors inherit
            _start(judge, runs, request, Served(Path.cwd() / new_name(), descriptor), apart)
        if request.dynamo_soon:
            preload_dynamo()


def new_name() -> str:
    """The name of a run's folder. It is drawn, since a rank may write beside its own: nobody takes the next one's."""
    return f"run-{secrets.token_hex(16)}"


def _start(judge: socket.socket, runs: dict[int, Served], request: Request, run: Served, apart: bool) -> None:
    try:
        pid = os.fork()
    except OSError as error:
        _say(run.descriptor, {"fault": f"no process could be started ({error.strerror})", "early": True})
        _end(run.descriptor)
        return
    if pid == 0:
        for other in runs.values():
            os.close(other.descriptor)
        _become_supervisor(judge, request, run, apart)
    runs[pid] = run


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
    if Path.cwd() != Path(FOLDER):
        return
    mounted = tidy.mounted()
    for place in (Path.cwd(), Path("/tmp"), Path("/dev/shm")):
        with contextlib.suppress(OSError):
            tidy.clear(place, mounted)
    if os.path.islink("/tmp"):
        os.makedirs(TMP, exist_ok=True)


def _say(descriptor: int, message: dict[str, Any]) -> None:
    """A word to the judge about a run."""
    connection = Connection(os.dup(descriptor))
    with contextlib.suppress(OSError), connection:
        connection.send_bytes(wire.encode(message))


def _end(descriptor: int) -> None:
    """Tell the judge that the run is over and nothing of it is left."""
    with contextlib.suppress(OSError), Connection(descriptor) as connection:
        connection.send_bytes(b"")


def _become_supervisor(judge: socket.socket, request: Request, run: Served, apart: bool) -> None:
    from grader.ranks.watch import entry

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    judge.close()
    entry.main(request, run.folder, Connection(run.descriptor), apart)


def _reap(runs: dict[int, Served], kept: frozenset[int]) -> None:
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
                reaper.kill_descendants(spare=kept | runs.keys())
                _say(run.descriptor, {"fault": "the process that watches the ranks was killed", "killed": True})
            folder.remove(run.folder)
            _end(run.descriptor)
