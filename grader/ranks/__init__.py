"""The only step in which student code runs: a case goes in, a Run of plain data comes out.

What lies here is the judge's; the folders are the other processes: `host` is the warm one that all are forked from,
`watch` looks after the ranks of one run, `inside` is all of ours that shares a process with student code.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.ranks.answer import Live
    from grader.ranks.sandbox import level_for
    from grader.ranks.session import Session

__all__ = ["Live", "Session", "level_for"]
_HOMES = {"Live": "answer", "Session": "session", "level_for": "sandbox"}


def __getattr__(name: str) -> Any:
    """The judge's names, imported when they are asked for: the other processes import from this package as well."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
