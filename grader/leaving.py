"""Leaving: a process that is told to end, or whose terminal has gone, is gone a moment later, with all below it and
whatever it does meanwhile. Standard library only."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import NoReturn

PATIENCE, CLEANING = 1.2, 0.7
"""Seconds that an orderly end may take, and after it the ending of what this process has started."""
ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
HANGUP = 129
"""The exit code of a process that ends because its terminal has."""
_last: list[Callable[[], None]] = []
_codes: list[int] = []
"""What this process is to exit with, once it is known."""


def at_last(do: Callable[[], None]) -> Callable[[], None]:
    """Have `do` called, in a thread, where an orderly end does not come in time: it ends what this process started."""
    _last.append(do)
    return do


def quickly() -> None:
    """Let this process end without taking its modules apart, which takes torch 0.8 s, once `end_with` has said how.
    To be called before anything else registers with atexit: all that has, and threads that are waited for, come first.
    """
    atexit.register(_end_now)


def end_with(code: int) -> NoReturn:
    """Exit with `code`: quickly, where that was asked for. What was printed is flushed already."""
    _codes.append(code)
    sys.exit(code)


def _end_now() -> None:
    if _codes:
        os._exit(_codes[-1])


def leave_soon(code: int) -> None:
    """End this process with `code` by force, unless it has ended by itself in a moment. Returns at once."""
    threading.Thread(target=_leave, args=(code,), daemon=True).start()


def _leave(code: int) -> None:
    time.sleep(PATIENCE)
    cleaning = threading.Thread(target=_clean, daemon=True)
    cleaning.start()
    cleaning.join(CLEANING)
    os._exit(code)


def _clean() -> None:
    for do in _last:
        with contextlib.suppress(Exception):
            do()


class Stop:
    """A handler of signals: raises `error(number)` in the main thread, and makes sure that the process ends by
    `code(number)` also where the error is lost or an orderly end takes long."""

    def __init__(self, error: Callable[[int], BaseException], code: Callable[[int], int]) -> None:
        self._error, self._code = error, code

    def __call__(self, number: int, frame: types.FrameType | None) -> NoReturn:
        self.arm(number)
        raise self._error(number)

    def arm(self, number: int) -> None:
        """End soon; nothing is raised."""
        leave_soon(self._code(number))


@contextlib.contextmanager
def handled(stop: Stop) -> Iterator[None]:
    """SIGTERM and SIGHUP call `stop` inside the block. One that was ignored from outside (nohup) stays ignored."""
    before = {number: signal.getsignal(number) for number in ENDINGS if signal.getsignal(number) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow_terminal() -> None:
    """Leave soon when the terminal of this process is closed, also where a hang-up is ignored. It waits in a thread;
    where there is no terminal it does nothing."""
    terminals = [number for number in (0, 1, 2) if _is_terminal(number)]
    if terminals and hasattr(select, "poll"):
        threading.Thread(target=_await_hangup, args=(terminals,), daemon=True).start()


def _is_terminal(number: int) -> bool:
    with contextlib.suppress(OSError):
        return os.isatty(number)
    return False


def _await_hangup(terminals: list[int]) -> None:
    poll = select.poll()
    for number in terminals:
        poll.register(number, 0)  # a hang-up is always told
    if any(told & select.POLLHUP for _, told in poll.poll()):
        leave_soon(HANGUP)
