"""Other processes: whether one waits, or has ended. Judged by what the system says of them, never by a clock alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import psutil

AWAKE = (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)


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
