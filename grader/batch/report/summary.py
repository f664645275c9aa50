"""The facts of a report as text, which the ledger keeps: a class report then need not read every report.

Equal failures have equal texts, whoever made them, so a class of thousands has some hundreds. Example sentences, which
differ, are not in them. What all grades of an exercise have in common, its checks above all, is a text of its own. The
other one is lines: the key of the common text, what is the grade's own, and each fault, of which a class has few
different ones, so that each is parsed once. A text of another version of this code is none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from grader.batch.report.facts import Check, Facts, Fault, Standstill, facts_of
from grader.batch.row import KEY, NO_SUMMARY, Summary

READING = (LookupError, TypeError, ValueError, AttributeError)
"""What looking at a report raises that is none."""
MADE_BY = ("facts.py", "shape.py", "summary.py")
"""What a text follows from."""


def key_of(text: str) -> str:
    """What a text of a summary is known by."""
    return hashlib.sha256(text.encode()).hexdigest()[:KEY]


def summary_of(report: Mapping[str, Any]) -> Summary:
    """The summary of a report as JSON gives it; an empty one where it is none."""
    try:
        facts = facts_of(report, _All())
    except READING:
        return NO_SUMMARY
    common = _line([_form(), facts.exercise, facts.title, facts.torch, facts.checks])
    sets = [sorted(facts.endings), sorted(facts.standstills), sorted(facts.blocked)]
    own = _line([facts.outcomes, facts.share, facts.uncompilable, *sets])
    return Summary("\n".join([key_of(common), own, *map(_line, sorted(facts.faults))]), common)


def _line(value: object) -> str:
    """JSON, which has no line's end in it."""
    return json.dumps(value, separators=(",", ":"))


@lru_cache(maxsize=20_000)
def facts_in(summary: Summary) -> Facts | None:
    """The facts, without sentences; None where the summary is empty or another version's."""
    if (common := _common(summary.common)) is None:
        return None
    _, own, *faults = summary.own.split("\n")
    outcomes, share, uncompilable, endings, standstills, blocked = json.loads(own)
    return Facts(
        **common,
        outcomes=outcomes,
        share=share,
        uncompilable=uncompilable,
        faults=frozenset(map(_fault, faults)),
        sentences={},
        endings=frozenset(endings),
        standstills=frozenset(Standstill(tuple(calls), tuple(lines), size) for calls, lines, size in standstills),
        blocked=frozenset(blocked),
    )


@lru_cache(maxsize=1024)
def _common(text: str) -> dict[str, Any] | None:
    """What grades of an exercise have in common; None where it is of another version."""
    form, *fields = json.loads(text or "[null]")
    if form != _form():
        return None
    exercise, title, torch, checks = fields
    return {"exercise": exercise, "title": title, "torch": torch, "checks": tuple(Check(*own) for own in checks)}


@lru_cache(maxsize=20_000)
def _fault(line: str) -> Fault:
    """Equal faults as one object, however many hand-ins have them."""
    return Fault(*json.loads(line))


class _All:
    """Every fault is known, so that no example is made of any."""

    def __contains__(self, fault: object) -> bool:
        return True


@cache
def _form() -> str:
    made_by = b"".join((Path(__file__).parent / name).read_bytes() for name in MADE_BY)
    return hashlib.sha256(made_by).hexdigest()[:12]
