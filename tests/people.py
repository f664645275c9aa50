"""A person at a dialogue, who types what a script says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


def asker(script: Iterable[Any]) -> Callable[[str], str]:
    """What reads a line: the script's next one. A callable in it is called in place of a line, an exception's class is
    raised, and after the last line the input has ended."""
    lines: Iterator[Any] = iter(script)

    def ask(prompt: str) -> str:
        line = next(lines, EOFError)
        while callable(line) and not isinstance(line, type):
            line()
            line = next(lines, EOFError)
        if isinstance(line, type):
            raise line
        return str(line)

    return ask
