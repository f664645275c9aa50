"""Whether a set of processes is wholly asleep. Judged by the kernel's counters, never by a clock alone.

A thread that sleeps shows no context switch. A stuck gloo rank has exactly one thread that moves: `gloo_tcp_loop`,
which polls its sockets every 10 ms. A set of ranks is quiet between two looks if no other thread of any of them ran or
waited for a core in between, and every such loop has polled several times and used next to no processor time, so that
no message can be on its way. A rank that was merely starved of a core therefore never looks quiet.

A loop may also turn for ever over a message that no call will ever take, because the Work of the call was let go of.
It uses a whole core then, and moves no byte: that is quiet as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

LOOP = "gloo_tcp_loop"
MIN_POLLS = 3
LOOP_NANOSECONDS_PER_POLL = 200_000
SPUN = 100_000_000
"""Nanoseconds of a core, used without a byte moved, that make a loop one that turns in vain: thousands of looks."""
BEFORE_BYTES = 0.2
"""Seconds after which the bytes are asked for: that takes a millisecond, and most loops are soon done."""
IDLE_SHARE = 0.05
TICK_MARGIN = 0.2
"""Seconds below which a share of processor time says nothing."""
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Thread:
    """A look at one thread: its scheduler state, how often it ran, and for how long (ns)."""

    name: str
    state: str
    slices: int
    nanoseconds: int


Look = Mapping[tuple[int, int], Thread]


def can_tell() -> bool:
    """Whether the kernel counts how often a thread ran. Without that, ranks are never called asleep."""
    return PROC.is_dir()


def look(pids: Mapping[int, frozenset[int]]) -> Look:
    """A look at every thread of the processes, leaving out the thread ids given for each. Nothing where the kernel does
    not count: processor time, which psutil tells everywhere, is the same for a rank that sleeps and for one that waits
    for a core, so a loaded machine would make deadlocks of correct programs."""
    return {(pid, tid): thread for pid, own in pids.items() for tid, thread in _threads(pid) if tid not in own}


def _threads(pid: int) -> Iterable[tuple[int, Thread]]:
    tasks = f"{PROC}/{pid}/task"
    try:
        names = os.listdir(tasks)
    except OSError:
        return
    for name in names:
        try:
            stat = _content(f"{tasks}/{name}/stat")
            nanoseconds, _, slices = _content(f"{tasks}/{name}/schedstat").split()[:3]
        except (OSError, ValueError):
            continue  # the thread has just ended
        comm, _, rest = stat.partition("(")[2].rpartition(")")
        yield int(name), Thread(comm, rest.split()[0], int(slices), int(nanoseconds))


def _content(file: str) -> str:
    """A file of /proc with at most one page. A supervisor reads hundreds a second, and pathlib takes longer than the
    kernel."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096).decode(errors="replace")
    finally:
        os.close(descriptor)


def unmoved(before: Look, now: Look) -> bool:
    """True if no thread ran, appeared, ended or waits for a core, the polling loops apart."""
    if before.keys() != now.keys():
        return False
    return all(
        thread.state in "SI" and thread.slices == before[key].slices
        for key, thread in now.items()
        if thread.name != LOOP
    )


def loops_idle(before: Look, now: Look, *, or_spun: bool = False) -> bool:
    """True if every polling loop has looked at its sockets since and found nothing to do, or has `spun`."""
    for key, thread in now.items():
        if thread.name == LOOP:
            polls, used = thread.slices - before[key].slices, thread.nanoseconds - before[key].nanoseconds
            idle = polls >= MIN_POLLS and used <= polls * LOOP_NANOSECONDS_PER_POLL
            if not idle and not (or_spun and used >= SPUN):
                return False
    return True


def spinning(before: Look, now: Look) -> frozenset[int]:
    """The processes whose loop has spun since."""
    return frozenset(
        pid
        for (pid, tid), thread in now.items()
        if thread.name == LOOP and thread.nanoseconds - before[pid, tid].nanoseconds >= SPUN
    )


def is_idle(before: Look, now: Look, seconds: float) -> bool:
    """True if all threads together used next to no processor time in these seconds."""
    used = sum(thread.nanoseconds for thread in now.values()) - sum(thread.nanoseconds for thread in before.values())
    return used < IDLE_SHARE * seconds * 1e9


class Watch:
    """Tells for how many seconds a set of processes has been quiet, or at least idle; and which of them were `turning`
    when they were last told to be quiet."""

    def __init__(self) -> None:
        self._first: Look = {}
        self._since = time.monotonic()
        self._bytes: Hashable | None = None
        self.turning = frozenset[int]()
        self._idle_first: Look = {}
        self._idle_since = time.monotonic()

    def idle_seconds(self, now: Look) -> float:
        """Seconds in which the processes did next to nothing: threads may wake up, but only to look and sleep again."""
        if not now:
            return 0.0
        elapsed = time.monotonic() - self._idle_since
        if self._idle_first.keys() == now.keys() and (elapsed < TICK_MARGIN or is_idle(self._idle_first, now, elapsed)):
            return elapsed
        self._idle_first, self._idle_since = now, time.monotonic()
        return 0.0

    def quiet_seconds(self, now: Look, moved: Callable[[], Hashable | None]) -> float:
        """`moved` tells what all connections of the processes have moved so far and hold, or None if nobody can."""
        if not now or not unmoved(self._first, now):
            self._begin(now, None)
            return 0.0
        elapsed = time.monotonic() - self._since
        if loops_idle(self._first, now):
            return elapsed
        if elapsed < BEFORE_BYTES or (found := moved()) is None:
            return 0.0
        if found != self._bytes:
            self._begin(now, found)
            return 0.0
        if not loops_idle(self._first, now, or_spun=True):
            return 0.0
        self.turning = spinning(self._first, now)
        return elapsed

    def _begin(self, now: Look, found: Hashable | None) -> None:
        self._first, self._since, self._bytes, self.turning = now, time.monotonic(), found, frozenset()

    def restart(self) -> None:
        """Count from the next look on."""
        self._begin({}, None)
