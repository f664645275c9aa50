"""A fact about this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Mark(Enum):
    """`NO` stops grading; `LESS` is absent or scarce, and grading goes on without it."""

    YES = "✓"
    NO = "✗"
    LESS = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing about this machine: what was found, and what that means for grading."""

    name: str
    mark: Mark
    found: str
    meaning: str


def rated(name: str, good: bool, found: str, meaning: str, otherwise: str, bad: Mark = Mark.LESS) -> Fact:
    """A fact that is well and means one thing, or is not (`bad`) and means the other."""
    return Fact(name=name, mark=Mark.YES if good else bad, found=found, meaning=meaning if good else otherwise)


def can_grade(facts: Iterable[Fact]) -> bool:
    """Whether nothing was found that makes grading impossible."""
    return all(fact.mark is not Mark.NO for fact in facts)
