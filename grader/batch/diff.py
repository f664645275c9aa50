"""Whose marks changed, and why: before they are published."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from grader.batch.basis import MEANINGS
from grader.batch.ledger import Ledger, content_of
from grader.batch.marks import Mark, marks, published
from grader.model.words import count

NEARLY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One mark that is another now. None is no mark; `reasons` and `checks` are sentences. `waits`: it is to be
    graded."""

    who: str
    exercise: str
    before: float | None
    after: float | None
    reasons: tuple[str, ...]
    checks: tuple[str, ...]
    waits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is compared: the marks of before, what they are those of, and the plans on both sides."""

    before: Iterator[Mark]
    told: str
    then: sqlite3.Row | None
    now: sqlite3.Row | None


def since(ledger: Ledger) -> Comparison:
    """With the marks that were given out last, or, where there were none, with those of the plan before."""
    plan = ledger.plan()
    given = ledger.one("SELECT plan FROM published LIMIT 1")
    if given is not None:
        then = ledger.one("SELECT * FROM plans WHERE plan = ?", [given["plan"]])
        return Comparison(before=published(ledger), told="the marks that were written out last", then=then, now=plan)
    then = ledger.plan_before(plan["plan"]) if plan else None
    told = "the plan before this one" if then else "nothing, for this is the first plan"
    return Comparison(before=marks(ledger, then), told=told, then=then, now=plan)


def planned(ledger: Ledger, then: sqlite3.Row | None) -> Comparison:
    """Of the plan in force with the one that was it when this call began."""
    return Comparison(before=marks(ledger, then), told="the plan before this one", then=then, now=ledger.plan())


def against(ledger: Ledger, other: Ledger) -> Comparison:
    """With those of another batch."""
    then = other.plan()
    return Comparison(before=marks(other, then), told=f"the marks of {other.folder}", then=then, now=ledger.plan())


def changes(ledger: Ledger, compared: Comparison) -> Iterator[Change]:
    """Every mark that is another than before, by exercise and person."""
    for before, after in _paired(compared.before, marks(ledger, compared.now)):
        points_before, points_after = (mark.points if mark else None for mark in (before, after))
        if _same(points_before, points_after):
            continue
        named = after or before
        assert named is not None
        yield Change(
            who=named.who,
            exercise=named.exercise,
            before=points_before,
            after=points_after,
            reasons=tuple(_reasons(before, after, compared)),
            checks=tuple(_flips(before, after)) if before and after else (),
            waits=after is not None and after.points is None,
        )


def _paired(left: Iterator[Mark], right: Iterator[Mark]) -> Iterator[tuple[Mark | None, Mark | None]]:
    """Two ordered streams side by side."""
    one, other = next(left, None), next(right, None)
    while one or other:
        first = other is None or (one is not None and one.key <= other.key)
        second = one is None or (other is not None and other.key <= one.key)
        yield one if first else None, other if second else None
        one = next(left, None) if first else one
        other = next(right, None) if second else other


def _same(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is after
    return abs(before - after) <= NEARLY


def _reasons(before: Mark | None, after: Mark | None, compared: Comparison) -> Iterator[str]:
    renamed = _people(compared.then) != _people(compared.now)
    if before is None:
        yield "handed in since" + (", or called so by the table of --people now" if renamed else "")
    elif after is None:
        yield "no longer among the hand-ins" + (", or called otherwise by the table of --people now" if renamed else "")
    else:
        if before.files != after.files:
            yield MEANINGS["files"]
        if before.unit != after.unit:
            yield from _other_parts(after.exercise, compared)
        if before.kept != after.kept:
            yield after.late or "no longer late"
        if before.weight != after.weight:
            yield f"its weight was {before.weight:g} and is {after.weight:g}"
        if before.unit == after.unit and (before.points is None or after.points is None):
            yield "graded since" if before.points is None else "it has no verdict any more"
        elif before.unit == after.unit and before.checks != after.checks:
            yield "another verdict for the same file"


def _people(plan: sqlite3.Row | None) -> str:
    """What the table of --people is known by under which a plan was made."""
    return str(content_of(plan).get("people", ""))


def _other_parts(exercise: str, compared: Comparison) -> Iterator[str]:
    then, now = (content_of(plan).get("parts", {}).get(exercise, {}) for plan in (compared.then, compared.now))
    yield from (MEANINGS[name] for name in now if name in then and now[name] != then[name])
    if compared.then and compared.now and compared.then["seed"] != compared.now["seed"]:
        yield MEANINGS["seed"]


def _flips(before: Mark, after: Mark) -> Iterator[str]:
    for name, outcome in after.checks.items():
        if before.checks.get(name, outcome) != outcome:
            yield f"{name}: {before.checks[name]} → {outcome}"
        elif name not in before.checks:
            yield f"{name}: new, {outcome}"


def lines(ledger: Ledger, compared: Comparison) -> Iterator[str]:
    """The changes as a person reads them, and what they come to."""
    up = down = other = 0
    for change in changes(ledger, compared):
        numbers = f"{_points(change.before)} → {_points(change.after)}"
        yield f"{change.who}  {change.exercise}  {numbers}  {'; '.join(change.reasons)}"
        yield from (f"    {check}" for check in change.checks)
        if change.before is None or change.after is None:
            other += 1
        elif change.after > change.before:
            up += 1
        else:
            down += 1
    total = up + down + other
    yield f"{count(total, 'mark')} {'is' if total == 1 else 'are'} other than in {compared.told}: " + (
        f"{up} up, {down} down, {other} come or gone."
    )


def _points(value: float | None) -> str:
    return "no mark" if value is None else f"{value:.4g}"
