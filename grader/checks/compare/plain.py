"""Plain values that differ: numbers, texts and flat lists, with what they lack and have too much of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from grader.checks.compare.text import LONGEST, is_list, items_text, short, whole_text
from grader.model import Value


def plain_difference(actual: Value, expected: Value) -> tuple[str, str] | None:
    """What was expected and seen, where two values of the same kind differ."""
    if is_list(expected):
        return _sequence_difference(actual, expected)
    if _same(actual, expected):
        return None
    if isinstance(expected, str | bytes):
        return _text_difference(actual, expected)
    return short(expected), short(actual)


def _same(actual: Value, expected: Value) -> bool:
    """Equal and of one type; NaN is the same as NaN."""
    if type(actual) is not type(expected):
        return False
    return bool(actual == expected) or (actual != actual and expected != expected)


def _sequence_difference(actual: Sequence[Value], expected: Sequence[Value]) -> tuple[str, str] | None:
    """The same for two flat lists: in full where they are short, else the first difference."""
    pairs = enumerate(zip(actual, expected, strict=False))
    first = next((index for index, pair in pairs if not _same(*pair)), min(len(actual), len(expected)))
    if first == len(actual) == len(expected):
        return None
    clause = _sequence_clause(actual, expected)
    whole = whole_text(list(expected)), whole_text(list(actual))
    if whole[0] and whole[1]:
        return whole[0], f"{whole[1]}: {clause + ', ' if clause else ''}first difference at index {first}"
    rest = f"; {clause}" if clause else ""
    if first == min(len(actual), len(expected)):
        return items_text(len(expected)), f"{len(actual)}{f', the first {first} right' if first else ''}{rest}"
    return f"{short(expected[first])} at index {first} of {len(expected)}", f"{short(actual[first])}{rest}"


def _sequence_clause(actual: Sequence[Value], expected: Sequence[Value]) -> str:
    """What two flat lists have and lack as multisets; nothing where that tells little (floats, one item each)."""
    clauses: list[str] = []
    if {type(item) for item in (*actual, *expected)} <= {int, str, type(None)}:
        seen, wanted = Counter(actual), Counter(expected)
        if seen == wanted:
            return "the same items in another order"
        if len(expected) > 1:
            lacks, extra = list((wanted - seen).elements()), list((seen - wanted).elements())
            clauses += [
                f"{word} {_some(items)}" for word, items in (("lacks", lacks), ("should not have", extra)) if items
            ]
    return ", ".join(clauses)


def _some(items: Sequence[Value]) -> str:
    return ", ".join(short(item) for item in items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")


def _text_difference(actual: Any, expected: Any) -> tuple[str, str]:
    """Two strings (or bytes): in full where they are short, else a window that begins shortly before they part."""
    if max(len(actual), len(expected)) <= LONGEST:
        return repr(expected), repr(actual)
    pairs = enumerate(zip(actual, expected, strict=False))
    first = next((index for index, pair in pairs if pair[0] != pair[1]), min(len(actual), len(expected)))
    window = slice(max(0, first - LONGEST // 4), max(0, first - LONGEST // 4) + LONGEST)
    return f"{expected[window]!r} around index {first}", f"{actual[window]!r}"
