"""What a supervisor knows of one rank, and the small tools that it watches with."""

from __future__ import annotations

import contextlib
import select
import signal
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import psutil

from grader.model import Ending, Exited, Killed, Raised, budgets
from grader.model.trace import Trace
from grader.ranks.watch.account import Account
from grader.ranks.watch.channel import Inbox
from grader.ranks.watch.evidence import Snapshot
from grader.ranks.watch.reaper import LOOK

HEAD = TAIL = 16 * 1024


class Tail:
    """The first and the last bytes of a stream of any length."""

    def __init__(self) -> None:
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        self._total += len(data)
        room = HEAD - len(self._head)
        self._head += data[:room]
        self._tail = (self._tail + data[room:])[-TAIL:] if len(data) > room else self._tail

    @property
    def total(self) -> int:
        return self._total

    def text(self) -> str:
        lost = self._total - len(self._head) - len(self._tail)
        middle = f"\n… {lost:,} bytes left out …\n" if lost else ""
        return bytes(self._head).decode(errors="replace") + middle + bytes(self._tail).decode(errors="replace")


class Watched:
    """What the supervisor knows of one rank. A rank is over once it has an ending."""

    def __init__(self, rank: int, channel: Connection, output: Connection, process: Any) -> None:
        self.rank, self.channel, self.process = rank, channel, process
        self.inbox = Inbox(channel.fileno(), budgets.OBSERVED_BY_RANK + 64)
        self.output: Connection | None = output
        self.pid: int = process.pid
        self.own: frozenset[int] = frozenset()
        self.device = ""
        self.ready = self.imported = self.gone = False
        self.ending: Ending | None = None
        self.observations: list[bytes] = []
        self.account = Account()
        self.printed = Tail()
        self.snapshot: Snapshot | None = None
        self.trace: Trace | None = None
        self.asked = ""

    @property
    def live(self) -> bool:
        return self.ending is None

    def ask(self, message: bytes) -> None:
        """Send a few bytes. A rank that does not read them gets none: nothing here waits for a rank."""
        with contextlib.suppress(OSError, ValueError):
            if select.select([], [self.channel], [], 0)[1]:
                self.account.asked += 1
                self.channel.send_bytes(message)

    def exit_code(self, seconds: float) -> int | None:
        """How the process ended, which it may do within so many seconds; None if it goes on. Not by `join`, which waits
        for ever where a process has closed its end of the pipe that stands for it."""
        until = time.monotonic() + seconds
        while self.process.exitcode is None and time.monotonic() < until:
            time.sleep(LOOK)  # between the closing of its descriptors and its end there is nothing to wait for
        code: int | None = self.process.exitcode
        return code

    def end(self, ending: Ending, seconds: float) -> None:
        """The first ending counts."""
        if self.ending is None:
            self.ending = replace(ending, seconds=seconds)


def stopped(pid: int) -> bool:
    """Whether a signal has stopped a process (not one that is traced)."""
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    return False


def ending_of(code: int | None) -> Ending:
    """How a process ended that left without a word, by what `multiprocessing` says of it: the number of a signal is
    negative, and None stands for a process that has hung up and goes on."""
    if code is None:
        return Raised(type="MalformedMessage", message="the rank's process has closed its channel to the grader")
    if code >= 0:
        return Exited(code=str(code), how="os._exit")
    try:
        return Killed(signal=signal.Signals(-code).name)
    except ValueError:
        return Killed(signal=f"signal {-code}")
