"""What a student sees while the ranks run: a spinner that names each phase on a terminal, one plain line elsewhere."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from grader.cli import tty


@contextlib.contextmanager
def shown(stream: TextIO, label: str, *, spinner: bool) -> Iterator[Callable[[str], None]]:
    """A function that is told each phase, from any thread. The spinner is gone when the block ends."""
    if not spinner:
        yield _lines(stream, label)
        return
    from rich.console import Console
    from rich.text import Text

    with tty.unechoed(), Console(file=stream).status(Text(label), spinner="line") as status:
        yield lambda phase: status.update(Text(f"{label}: {phase}"))


def _lines(stream: TextIO, label: str) -> Callable[[str], None]:
    """Says the first phase and no other: a log has no use for twenty lines of progress."""
    said = threading.Event()

    def say(phase: str) -> None:
        if not said.is_set():
            said.set()
            with contextlib.suppress(OSError, ValueError):
                print(f"{label}: {phase}", file=stream, flush=True)

    return say
