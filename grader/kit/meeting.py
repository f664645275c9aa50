"""Ranks that meet, and tell one another something, without a process group: by files in the folder that they share.

Who waits sleeps in the kernel until another rings, so that a meeting to which somebody never comes is a deadlock like
any other, and is called as soon: looking again and again would be taken for work.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

PATIENCE = 30.0
"""Seconds after which a wait is given up. Only wrong code makes anybody wait so long; nothing is judged by it."""
LOOK = 0.002
"""Seconds between two looks."""
WAIT = "a meeting of the ranks"
"""What a rank waits in that waits here, in the words of a deadlock's page."""
MOST_RINGS = 4096
"""Bytes that are taken from a bell at a time."""


class NeverMeet(RuntimeError):
    """Some ranks wait for others that do not come."""


def wait_until(happened: Callable[[], bool], seconds: float = PATIENCE, look: float = LOOK) -> bool:
    """Wait for something that another process does, looking every `look` seconds. False if it has not happened after
    `seconds`."""
    until = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > until:
            return False
        _pause(look)
    return True


_pause = time.sleep  # a probe may replace time.sleep


def tell_all(
    rank: Any,
    topic: str,
    word: Any = None,
    *,
    members: Sequence[int] | None = None,
    seconds: float = PATIENCE,
    given_up: Callable[[int], bool] = lambda number: False,
) -> dict[int, Any]:
    """What each member says on a topic, once all have said it. Every member must call it; the members are all ranks
    unless named. Each topic once. `word` is anything that JSON takes; `given_up(number)` says that a member will never
    come, and whoever brings that about calls `ring`. Raises NeverMeet."""
    numbers = range(rank.world_size) if members is None else members
    files = {number: rank.shared / f"{topic}.{number}" for number in numbers}

    def silent() -> list[int]:
        return [number for number, file in files.items() if not file.exists()]

    with _own_bell(rank) as bell:
        _write(rank.shared / f"{topic}.{rank.rank}", word)
        ring(rank, numbers)
        rank.waiting(WAIT, lambda: bell.sleep_until(lambda: not silent() or any(map(given_up, silent())), seconds))
    if missing := silent():
        raise NeverMeet(f"the processes {missing} do not come to meet the others")
    return {number: json.loads(file.read_text()) for number, file in files.items()}


def meet(rank: Any, topic: str, members: Sequence[int] | None = None) -> None:
    """Wait until every member has come here. Every member must call it, each topic once. Raises NeverMeet."""
    tell_all(rank, topic, members=members)


def ring(rank: Any, numbers: Iterable[int]) -> None:
    """Let those that wait look again, for something has changed. Who does not wait hears nothing, and will look."""
    for number in numbers:
        with contextlib.suppress(OSError):  # nobody waits there, or it has been told often enough
            bell = os.open(_bell_of(rank, number), os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(bell, b"\0")
            finally:
                os.close(bell)


class _Bell:
    """A pipe by which the others wake this rank. It is there before this rank looks, so that nothing is missed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def sleep_until(self, happened: Callable[[], bool], seconds: float) -> None:
        """Return once it has happened, or after `seconds`. Looked for at each ring."""
        until = time.monotonic() + seconds
        while not happened() and (left := until - time.monotonic()) > 0:
            if select.select([self._descriptor], [], [], left)[0]:
                os.read(self._descriptor, MOST_RINGS)


@contextlib.contextmanager
def _own_bell(rank: Any) -> Iterator[_Bell]:
    path = _bell_of(rank, rank.rank)
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # for writing as well: it never ends
    try:
        yield _Bell(descriptor)
    finally:
        os.close(descriptor)


def _bell_of(rank: Any, number: int) -> Path:
    return Path(rank.shared) / f"bell.{number}"


def _write(path: Path, word: Any) -> None:
    """Write a file that is there whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(word))
    part.rename(path)
