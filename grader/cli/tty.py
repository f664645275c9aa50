"""The terminal as it is found: letters where it has no ✓, and a usable one where a killed command has left it raw."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

LETTERS: Mapping[str, str] = {
    "✓": "v", "✗": "x", "\N{EN DASH}": "-", "\N{EM DASH}": "-", "…": ".", "│": "|", "›": ">", "≈": "~", "≤": "<",
    "≥": ">", "“": '"', "”": '"', "‘": "'", "’": "'", "→": ">", "←": "<", "↑": "^", "↓": "v", "−": "-", "·": ".",
    "×": "x", "─": "-", "━": "-", "═": "=", "┃": "|", "║": "|", "•": "*", "○": "o", "●": "*", "◐": "o", "≠": "#",
}  # fmt: skip
"""As wide as what they stand for, so that columns stay. Of others digits and letters are kept, a line of a table
becomes a +, and what is left a question mark."""
LEAVE = "\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[0m"
"""Leaves a full screen, its mouse and its pasting, and shows the cursor: what a command does that ends by itself."""


def letters(error: UnicodeError) -> tuple[str, int]:
    """A handler of `codecs`: letters for what an encoding such as Latin-1 does not have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_letter, error.object[error.start : error.end])), error.end


def _letter(char: str) -> str:
    plain = unicodedata.normalize("NFKD", char)  # ⁹ is 9
    return LETTERS.get(char) or (plain if plain.isascii() else "+" if "\u2500" <= char <= "\u257f" else "?")


def use_letters() -> None:
    """From now on nothing that is printed fails for what a terminal cannot show."""
    codecs.register_error("letters", letters)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="letters")


@contextlib.contextmanager
def unechoed() -> Iterator[None]:
    """Nothing that is typed is shown meanwhile, where it would stand in the middle of a line that is repainted. Whoever
    asks next reads it all the same."""
    before = _terminal()
    if before is None:
        yield
        return
    import termios

    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, quiet)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)


def _terminal() -> list[Any] | None:
    """How the terminal that this process reads is set; None where there is none, or it is another process's."""
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        import termios

        descriptor = sys.stdin.fileno()
        if os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp():
            return termios.tcgetattr(descriptor)
    return None


def mend() -> None:
    """Make a terminal usable that a killed command has left raw: lines are lines, Ctrl-C interrupts, one sees what one
    types. One that is in order, or another process's, is left alone."""
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        import termios

        descriptor = sys.stdin.fileno()
        if not os.isatty(descriptor) or os.tcgetpgrp(descriptor) != os.getpgrp():
            return
        now: list[Any] = termios.tcgetattr(descriptor)
        if now[3] & termios.ICANON and now[3] & termios.ISIG:
            return
        now[0] |= termios.ICRNL | termios.BRKINT | termios.IXON
        now[1] |= termios.OPOST | termios.ONLCR
        now[3] |= termios.ICANON | termios.ISIG | termios.IEXTEN | termios.ECHO | termios.ECHOE | termios.ECHOK
        termios.tcsetattr(descriptor, termios.TCSANOW, now)
        if sys.stdout.isatty():
            sys.stdout.write(LEAVE)
            sys.stdout.flush()
