"""What a student sees while the ranks run: a spinner on a terminal, one plain line a phase elsewhere."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TextIO


@contextlib.contextmanager
def shown(stream: TextIO, label: str, *, spinner: bool) -> Iterator[Callable[[str], None]]:
    """A function that is told each phase, from any thread. The spinner is gone when the block ends."""
    if not spinner:
        yield _lines(stream, label)
        return
    from rich.console import Console
    from rich.text import Text

    with Console(file=stream).status(Text(label), spinner="line") as status:
        yield lambda phase: status.update(Text(f"{label}: {phase}"))


def _lines(stream: TextIO, label: str) -> Callable[[str], None]:
    said: set[str] = set()
    lock = threading.Lock()

    def say(phase: str) -> None:
        with lock, contextlib.suppress(OSError, ValueError):
            if phase not in said:
                said.add(phase)
                print(f"{label}: {phase}", file=stream, flush=True)

    return say
