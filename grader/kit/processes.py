"""Other processes: whether one waits, has ended or was left behind; and calls that are broken off once nothing moves in
the processes below this one. Judged by what the system says of them, never by a clock alone."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import psutil

from grader.kit.meeting import wait_until

T = TypeVar("T")
AWAKE = (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
GRACE = 0.5
"""Seconds that a process may take to be gone."""
LOOK = 0.25
"""Seconds between two looks at a tree of processes."""
WORKED = 0.03
"""Seconds of a core, used between two looks, that make a process one that moves: an eighth of the time."""
MERCY = 20
"""Looks in which a call that was told to leave has to do so."""
HELPERS = ("multiprocessing.forkserver", "multiprocessing.resource_tracker")
SERVER = "spawn-server"
"""What the server of `kit.spawns` is called."""


def state(pid: int) -> str:
    """One of psutil's STATUS words, for the main thread of a process; STATUS_DEAD where the process has gone."""
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return psutil.STATUS_DEAD


def waits(pid: int) -> bool:
    """Whether its main thread waits for something other than a core or a disk."""
    return state(pid) not in AWAKE


def has_ended(pid: int) -> bool:
    return state(pid) in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def asleep_for(looks: int, pids: Iterable[int]) -> Callable[[], bool]:
    """A condition to be looked at again and again: that so many looks in a row found all these processes waiting. One
    that is about to go on but gets no core does not wait."""
    watched, in_a_row = list(pids), 0

    def look() -> bool:
        nonlocal in_a_row
        in_a_row = in_a_row + 1 if all(map(waits, watched)) else 0
        return in_a_row >= looks

    return look


def all_gone(pids: Iterable[int], seconds: float = GRACE) -> bool:
    """Whether none of these processes exists any more, not as a zombie either; waits so long for that."""
    watched = list(pids)
    return bool(wait_until(lambda: all(state(pid) == psutil.STATUS_DEAD for pid in watched), seconds, look=0.01))


def left_behind(pids: Iterable[int], seconds: float = GRACE, *, spare: bool = False) -> list[str]:
    """The states of those of these processes, zombies among them, that still exist `seconds` from now. Kills them;
    with `spare` only those that are busy."""

    def states() -> dict[int, str]:
        found = {pid: state(pid) for pid in watched}
        return {pid: word for pid, word in found.items() if word != psutil.STATUS_DEAD}

    watched = set(pids)
    wait_until(lambda: not states(), seconds, look=0.01)
    remaining = states()
    for pid in remaining:
        if not (spare and waits(pid)):
            kill(pid)
    return sorted(remaining.values())


def kill(pid: int) -> None:
    """SIGKILL, if it still exists."""
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)


# -- calls that are watched -------------------------------------------------------------------------------------------


class Activity(NamedTuple):
    """What one look sees of a process: whether it wants a core or a disk, and the seconds of a core it has used."""

    awake: bool
    seconds: float


def activity(roots: Iterable[int] | None = None) -> dict[int, Activity]:
    """Of these processes, or of this one, and of each one below them that has not ended, by process id."""
    found: dict[int, Activity] = {}
    for root in [os.getpid()] if roots is None else roots:
        with suppress(psutil.Error):
            for process in [psutil.Process(root), *psutil.Process(root).children(recursive=True)]:
                with suppress(psutil.Error), process.oneshot():
                    if (status := process.status()) != psutil.STATUS_ZOMBIE:
                        times = process.cpu_times()
                        found[process.pid] = Activity(status in AWAKE, times.user + times.system)
    return found


def moved(before: Mapping[int, Activity], now: Mapping[int, Activity]) -> bool:
    """Whether a process came or went, wanted a core at both looks, or used one."""
    if before.keys() != now.keys():
        return True
    return any((before[pid].awake and now[pid].awake) or now[pid].seconds - before[pid].seconds > WORKED for pid in now)


def is_helper(process: psutil.Process | None) -> bool:
    """Whether it is multiprocessing's fork server, one forked from that, its resource tracker, or our own server."""
    words = " ".join(process.cmdline()) if process else ""
    return any(helper in words for helper in HELPERS) or (process is not None and process.name() == SERVER)


def kill_below() -> None:
    """End all processes below this one but the helpers of multiprocessing, which a later call may need."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if not is_helper(process) or is_helper(process.parent()):
                process.kill()


class BrokenOff(BaseException):
    """Raised in the main thread to leave a call in which nothing moves any more."""


class WatchedCall:
    """A call in the main thread, broken off once it is stuck: when no process of this one's tree has started, ended,
    wanted a core or used one for more looks in a row than `patience()`.

    Looks are counted, not seconds: a machine that was paused is not stuck. What is below this process is killed then,
    after `give_up` was called. `hung` tells whether it came to that, and `line` where in `file` the call waited. A call
    that moves on for more than `longest()` looks, since it asks again and again, is broken off likewise, and `moving`.
    `quiet` is the most looks in a row that saw nothing move.

    A call that waits inside C++ hears of no exception, torch's store for five minutes where it cannot reach its server.
    `abandon` is called for one that has not left after MERCY looks, in another thread; it may record what is known and
    end this process.
    """

    def __init__(
        self,
        file: str,
        patience: Callable[[], int],
        give_up: Callable[[], object] = lambda: None,
        abandon: Callable[[], object] = lambda: None,
        longest: Callable[[], float] = lambda: float("inf"),
    ) -> None:
        self.hung = self.moving = False
        self.line: int | None = None
        self.quiet = 0
        self._file, self._patience, self._longest = file, patience, longest
        self._give_up, self._abandon = give_up, abandon
        self._over, self._left = threading.Event(), threading.Event()

    def run(self, function: Callable[[], T]) -> T | None:
        """What the call gives back; None if it was broken off."""
        result = None
        signal.signal(signal.SIGALRM, self._leave)
        _thread.start_new_thread(self._watch, ())
        try:
            result = function()
            self._over.set()
        except BrokenOff:
            pass
        finally:
            self._over.set()
            self._left.wait()
        return result

    def _leave(self, *_: object) -> None:
        if not self._over.is_set():
            raise BrokenOff

    def _watch(self) -> None:
        """In a thread that `threading` does not know: who looks whether the process has others finds none."""
        try:
            self._look_on()
        finally:
            self._left.set()

    def _look_on(self) -> None:
        before, quiet, looks, told = activity(), 0, 0, 0
        while not self._over.wait(LOOK):
            now = activity()
            quiet, looks = 0 if moved(before, now) else quiet + 1, looks + 1
            before, self.quiet = now, max(quiet, self.quiet)
            if quiet > self._patience() or looks > self._longest():
                if not self.hung:
                    self.moving = quiet <= self._patience()
                self._break_off()
                told += 1
            if told > MERCY:
                self._abandon()
                told = 0

    def _break_off(self) -> None:
        main = threading.main_thread().ident or 0
        self.line = self.line or _line_in(self._file, main)
        self.hung = True
        self._give_up()
        kill_below()
        signal.pthread_kill(main, signal.SIGALRM)


def _line_in(file: str, thread: int) -> int | None:
    """The line of a file at which a thread is, in the innermost of the file's functions."""
    frames: Iterable[tuple[Any, int]] = traceback.walk_stack(sys._current_frames().get(thread))
    return next((line for frame, line in frames if frame.f_code.co_filename == file), None)
