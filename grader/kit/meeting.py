"""Ranks that meet, and tell one another something, without a process group: by files in the folder that they share."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PATIENCE = 30.0
"""Seconds after which a wait is given up. Only wrong code makes anybody wait so long; nothing is judged by it."""
LOOK = 0.002
"""Seconds between two looks."""


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
    come. Raises NeverMeet."""
    _write(rank.shared / f"{topic}.{rank.rank}", word)
    numbers = range(rank.world_size) if members is None else members
    files = {number: rank.shared / f"{topic}.{number}" for number in numbers}

    def silent() -> list[int]:
        return [number for number, file in files.items() if not file.exists()]

    wait_until(lambda: not silent() or any(map(given_up, silent())), seconds)
    if missing := silent():
        raise NeverMeet(f"the processes {missing} do not come to meet the others")
    return {number: json.loads(file.read_text()) for number, file in files.items()}


def meet(rank: Any, topic: str, members: Sequence[int] | None = None) -> None:
    """Wait until every member has come here. Every member must call it, each topic once. Raises NeverMeet."""
    tell_all(rank, topic, members=members)


def _write(path: Path, word: Any) -> None:
    """Write a file that is there whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(word))
    part.rename(path)
