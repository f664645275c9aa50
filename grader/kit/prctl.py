"""What a Linux process asks of the kernel about itself. Elsewhere nothing happens. Standard library only."""

from __future__ import annotations

import ctypes
import functools
import signal
import sys
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37


def become_subreaper(now: bool = True) -> bool:
    """Orphans below this process become its children, from `now` on or no more. False where the system cannot."""
    return _prctl(PR_SET_CHILD_SUBREAPER, int(now))


def is_subreaper() -> bool:
    """Whether orphans below this process become its children."""
    answer = ctypes.c_int(0)
    _prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer))  # a plain integer would be cut to 32 bits
    return answer.value == 1


def die_with_parent() -> None:
    """The kernel kills this process when its parent ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def hide() -> None:
    """Close this process to others of the same user: no ptrace, no /proc/PID/fd or mem, no pidfd_getfd. What is forked
    from it is closed as well (root with all its rights looks in nevertheless)."""
    _prctl(PR_SET_DUMPABLE, 0)


def show() -> None:
    """Take `hide` back, so that a supervisor can look after a process forked from it."""
    _prctl(PR_SET_DUMPABLE, 1)


def _prctl(option: int, value: Any) -> bool:
    return sys.platform == "linux" and bool(libc().prctl(option, value, 0, 0, 0) == 0)


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library, opened once for all that is forked from this process."""
    return ctypes.CDLL(None, use_errno=True)
