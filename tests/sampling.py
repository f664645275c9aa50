"""Tests of which a run tries some: the same ones for one tree, and others as the tree changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

MARKER = "one_in"
LINE = f"{MARKER}(n): of so many such tests one is run, drawn by the tree's content; with --whole or by name, all are"


def is_drawn(name: str, share: int, tree: str) -> bool:
    """Whether a test is among those that are run."""
    return int.from_bytes(hashlib.sha256(f"{tree}/{name}".encode()).digest()) % share == 0


def drawn(names: Iterable[str], share: int, tree: str) -> list[str]:
    """Those of some names that are run."""
    return [name for name in names if is_drawn(name, share, tree)]
