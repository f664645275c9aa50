"""The process above a worker that lets nothing outlive it. Standard library only, until there is nothing else to do.

A worker hears little while it imports torch, and whoever is killed cleans up nothing. So a worker forks before it does
anything: its parent becomes the guard, which imports nothing heavy, runs nobody's code and waits for two things, that
whoever gives the worker its commands hangs up, or that the worker ends. Either way it ends all that is left below it.
It is a subreaper where the kernel has that, so whatever loses its parent comes to the guard.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
import types
from typing import NoReturn

from grader.kit import prctl

COMMANDS = 0
"""The descriptor over which a worker hears."""
ORDERLY = 0.6
"""Seconds that a worker has to end by itself when nobody listens any more: to end its runs and remove its files."""
HOSTS = 0.8
"""Seconds that hosts have, which hear that their worker is gone, to end their ranks and remove their folders."""
LOOK = 0.02
FORWARDED = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name)]


def guarded() -> None:
    """Go on in a child of this process, which itself stays behind as the guard and ends as the child does. To be called
    before there are threads. Where processes cannot fork nothing happens."""
    if not hasattr(os, "fork"):
        return
    guard = os.getpid()
    worker = os.fork()
    if worker:
        _guard(worker)
    prctl.die_with_parent()
    if os.getppid() != guard:  # it ended before the kernel was asked
        os._exit(1)


def _guard(worker: int) -> NoReturn:
    prctl.become_subreaper()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def forward(number: int, frame: types.FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, number)

    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in FORWARDED:
        signal.signal(number, forward)
    status = _awaited(worker, reading)
    _clear()
    _end_as(status)


def _awaited(worker: int, woken: int) -> int:
    """How the worker ended; it is killed where it does not when it should. One that was stopped is as good as dead."""
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    poll.register(COMMANDS, 0)  # that the other end is closed is always told
    until: float | None = None
    while True:
        status = _ended(worker)
        if status is not None:
            return status
        if until is not None and time.monotonic() >= until:
            _kill(worker)
        left = None if until is None else max(1, round(1000 * (until - time.monotonic())))
        for descriptor, _ in poll.poll(left):
            if descriptor == woken:
                os.read(woken, 64)
            else:
                until = time.monotonic() + ORDERLY
                poll.unregister(COMMANDS)


def _ended(worker: int) -> int | None:
    """The status of the worker, None while it lives; orphans that have come and gone are collected on the way."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                break
            if os.WIFSTOPPED(status):
                _kill(pid)
            elif pid == worker:
                return status
    return None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _clear() -> None:
    """Give what is left below a moment to leave by itself; then end it."""
    until = time.monotonic() + HOSTS
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(LOOK)
        except ChildProcessError:
            return
    from grader.ranks.watch import reaper  # psutil takes a while, and there is mostly nothing left to end

    reaper.kill_descendants()


def _end_as(status: int) -> NoReturn:
    """End as the worker did, so that whoever started this process hears how."""
    if os.WIFSIGNALED(status):
        import resource

        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)
