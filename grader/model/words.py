"""Lists, counts and sizes in words. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def rank_list(ranks: Sequence[int]) -> str:
    """`rank 1`, or `ranks 0, 2`."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def count(number: int, one: str, many: str = "") -> str:
    """`1 rank`, `3 ranks`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def listed(items: Iterable[object], most: int = 5) -> str:
    """`3, 5, 8, …`: the first few of some items."""
    shown = list(items)
    return ", ".join(map(str, shown[:most])) + (", …" if len(shown) > most else "")


def amount(size: float) -> str:
    """`1.2 MB`: bytes in a unit that reads well, with 1 MB = 10^6 bytes."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(size) >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:g} bytes"
