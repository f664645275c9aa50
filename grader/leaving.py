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
REPEAT = 0.2
"""Seconds after which a signal that was not handled yet is sent again."""
ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
INTERRUPTS = [signal.SIGINT, *ENDINGS]
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


def leave_soon(code: int, patience: float = PATIENCE) -> None:
    """End this process with `code` by force, unless it has ended by itself in a moment. Returns at once."""
    threading.Thread(target=_leave, args=(code, patience), daemon=True).start()


def _leave(code: int, patience: float) -> None:
    time.sleep(patience)
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
    `code(number)` also where the error is lost or an orderly end takes long, so that a second signal of its kind need
    not disturb that; without `code` nothing is made sure of. `once` ignores all later ones of every kind."""

    def __init__(
        self, error: Callable[[int], BaseException], code: Callable[[int], int] | None = None, *, once: bool = False
    ):
        self._error, self._code, self._once = error, code, once
        self.heard, self._raised = threading.Event(), False

    def __call__(self, number: int, frame: types.FrameType | None) -> None:
        if self._raised and self._code:
            return
        self._raised = True
        for other in INTERRUPTS if self._once else []:
            signal.signal(other, signal.SIG_IGN)
        self.arm(number)
        raise self._error(number)

    def arm(self, number: int) -> None:
        """End soon, where that is to be made sure of; nothing is raised."""
        self.heard.set()
        if self._code:
            leave_soon(self._code(number))


@contextlib.contextmanager
def handled(stop: Stop) -> Iterator[None]:
    """SIGTERM and SIGHUP call `stop` inside the block. One that was ignored from outside (nohup) stays ignored. No such
    signal is lost, nor Ctrl-C, however the main thread waits."""
    before = {number: signal.getsignal(number) for number in ENDINGS if signal.getsignal(number) is not signal.SIG_IGN}
    handlers = dict.fromkeys(before, stop)
    if (default := signal.getsignal(signal.SIGINT)) is signal.default_int_handler:
        before[signal.SIGINT], handlers[signal.SIGINT] = default, Stop(lambda number: KeyboardInterrupt())
    for number, handler in handlers.items():
        signal.signal(number, handler)
    try:
        with insisted():
            yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextlib.contextmanager
def insisted() -> Iterator[None]:
    """No signal whose handler is a Stop is lost inside the block. One that arrives when the main thread is about to
    wait, for a line or a lock, does not end that wait, and Python calls no handler before it has ended; so a thread
    hears of every signal (signal.set_wakeup_fd) and sends it again until it was handled. To be entered by the main
    thread."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_insist, args=(reading,), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)


def _insist(reading: int) -> None:
    with open(reading, "rb", buffering=0) as told:
        while numbers := told.read(64):
            for number in numbers:
                _repeat(number)


def _repeat(number: int) -> None:
    main = threading.main_thread().ident or 0
    while isinstance(stop := signal.getsignal(number), Stop) and not stop.heard.wait(REPEAT):
        if not stop.heard.is_set():  # nor in the moment since
            signal.pthread_kill(main, number)


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
