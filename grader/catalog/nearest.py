"""What an author or a student may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LISTED = 12


def nearest(word: str, choices: Iterable[str], count: int = 3) -> list[str]:
    """At most `count` of the choices that look like `word`, the most similar first."""
    return difflib.get_close_matches(word.lower(), list(choices), n=count, cutoff=0.55)


def either(words: Iterable[str]) -> str:
    """The words as one reads them: `a`, `a or b`, `a, b or c`."""
    *rest, last = words
    return f"{', '.join(rest)} or {last}" if rest else last


def offer(word: str, choices: Iterable[str]) -> str:
    """One sentence that offers the nearest choice, or else all of them."""
    known = list(choices)
    near = nearest(word, known, count=1)
    if near:
        return f"Did you mean '{near[0]}'?"
    if not known:
        return "Remove it; there is nothing that it could name."
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"Choose from {', '.join(known[:_LISTED])}{more}."
