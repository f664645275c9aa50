"""The values that all modules here share: the question, pairs of leaves, where structures differ, what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grader.checks.compare.text import short
from grader.checks.tolerance import Reduction
from grader.model import Finding, Value

Path = tuple[str | int, ...]

Judged = Callable[[], Finding] | None
"""None where all is well, else what builds the finding (explaining one is dear, finding one is cheap)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is compared, and all that helps to explain a difference."""

    subject: str
    ranks: tuple[int, ...] = ()
    case: str | None = None
    reduction: Reduction = Reduction.EXACT
    terms: int = 1
    plain_floats: bool = False
    world_size: int | None = None
    stale: Value = None
    alternatives: Mapping[str, Value] = field(default_factory=dict)

    def finding(self, path: Path, expected: str, actual: str, ranks: tuple[int, ...] | None = None) -> Finding:
        return Finding(
            subject=self.subject + _path_text(path),
            expected=expected,
            actual=actual,
            ranks=self.ranks if ranks is None else ranks,
            case=self.case,
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """Two leaves of the same kind; tensors have the same shape and dtype."""

    path: Path
    actual: Any
    expected: Any


@dataclass(frozen=True, slots=True)
class Fault:
    """The structures differ at `path`."""

    path: Path
    expected: str
    actual: str


def _path_text(path: Path) -> str:
    if not path:
        return ""
    head = f" {short(path[0])}" if isinstance(path[0], str) else f"[{short(path[0])}]"
    return head + "".join(f"[{short(step)}]" for step in path[1:])
