"""Whether a thread of this process sleeps until another thread of it wakes it up, by what the kernel says.

A stack does not tell: `lock.acquire()`, `queue.SimpleQueue().get()` and an idle worker of a ThreadPoolExecutor wait in
C, and look like a line that computes. The kernel knows the system call in which a thread is, and its arguments. A
process may read that of its own threads, unless it is hidden and not run by root.
"""

from __future__ import annotations

import platform
import signal
import threading

FUTEX = {"x86_64": "202", "aarch64": "98"}
"""The number of the system call that waits for a lock."""
COMMAND, PRIVATE = 0x7F, 0x80
WAITING = (0, 9)
"""FUTEX_WAIT and FUTEX_WAIT_BITSET. A private one is seen by this process alone, so no other process wakes it up."""


def until_woken(ident: int) -> bool:
    """True if this thread, by Python's number, waits for a lock of this process without a limit of time, and no alarm
    is set that would interrupt it; False also where nobody can tell."""
    if any(signal.getitimer(signal.ITIMER_REAL)):
        return False
    thread = next((each for each in threading.enumerate() if each.ident == ident), None)
    if thread is None or thread.native_id is None:
        return False
    try:
        with open(f"/proc/self/task/{thread.native_id}/syscall", encoding="ascii") as file:
            number, *arguments = file.read().split()
    except (OSError, ValueError):
        return False
    return number == FUTEX.get(platform.machine()) and _endless([int(each, 16) for each in arguments[:4]])


def _endless(arguments: list[int]) -> bool:
    """Of futex(address, operation, value, timeout): a private wait that no clock ends."""
    if len(arguments) < 4:
        return False
    _, operation, _, timeout = arguments
    return operation & COMMAND in WAITING and bool(operation & PRIVATE) and timeout == 0
