"""Which of the known mistakes, the mutants of an exercise, a hand-in fails like. Pure.

A mutant's signature is the set of faults that its own grade gave. Where it was never graded here, it is the checks that
`mutants.yaml` says it must fail, and what a hand-in is held against is then its failed checks alone. That several
mutants fail in one way is no accident: the checks see what a program does, and they do the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from grader.batch.report.facts import Fault

NEAR = 0.5
"""The share of all faults of a hand-in and a mutant that both must have, where none fits exactly."""
_EXCEPTION = re.compile(r"([A-Z]\w*(?:Error|Exception|Exit|Interrupt|Iteration)): ")
SHOWN = 6
"""So many mutants are named for one way to fail at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """How a mutant fails. `faults` is empty where it was not graded here."""

    name: str
    mistake: str
    fails: frozenset[str]
    faults: frozenset[Fault] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """What a way to fail is like. `how` is "same" (all of it, by these mutants, any one of which), "together" (all of
    it, by these mutants together), "near", "checks" (the same checks; nothing else is known), or "" for nothing."""

    how: str = ""
    mutants: tuple[str, ...] = ()


def likeness(faults: frozenset[Fault], blocked: Collection[str], signatures: Sequence[Signature]) -> Likeness:
    """The mutants that a way to fail is like. Checks that are `blocked` were not judged, so what a mutant would have
    failed there is not asked for."""
    graded = [each for each in signatures if each.faults]
    if not graded:
        return _by_checks(faults, blocked, signatures)
    judged = {each.name: frozenset(f for f in each.faults if f.check not in blocked) for each in graded}
    own = {name: found for name, found in judged.items() if found}
    for view in (frozenset, _without_messages):
        found = _exact(view(faults), {name: view(each) for name, each in own.items()}, graded)
        if found.how:
            return found
    return _near(faults, own)


def _without_messages(faults: Iterable[Fault]) -> frozenset[Fault]:
    """The same faults with what an exception says left away, for those are often a student's own words."""
    return frozenset(fault._replace(actual=_kind_of(fault)) for fault in faults)


def _kind_of(fault: Fault) -> str:
    if fault.subject.endswith(" was raised"):
        return ""
    found = _EXCEPTION.match(fault.actual)
    return found[1] if found else fault.actual


def _exact(faults: frozenset[Fault], own: Mapping[str, frozenset[Fault]], graded: Iterable[Signature]) -> Likeness:
    """What explains every fault and has no other."""
    if same := _closest_names([name for name, found in own.items() if found == faults], graded):
        return Likeness(how="same", mutants=same)
    if together := _cover(faults, own):
        return Likeness(how="together", mutants=together)
    return Likeness()


def _closest_names(names: Collection[str], graded: Iterable[Signature]) -> tuple[str, ...]:
    """Those of the names whose mutants have the fewest faults: where checks were blocked, many could have been meant,
    and the smallest mistake is the likeliest."""
    sizes = {each.name: len(each.faults) for each in graded if each.name in names}
    least = min(sizes.values(), default=0)
    return tuple(name for name, size in sizes.items() if size == least)[:SHOWN]


def _cover(faults: frozenset[Fault], own: Mapping[str, frozenset[Fault]]) -> tuple[str, ...]:
    """Few mutants whose faults together are these, by the greedy rule: always the one that explains most of the rest.
    Empty where some are left over, or more than three mutants would be needed."""
    parts = {name: found for name, found in own.items() if found < faults}
    left, chosen = set(faults), list[str]()
    while left and len(chosen) < 3:
        name = max(parts, key=lambda each: len(parts[each] & left), default="")
        if not name or not parts[name] & left:
            return ()
        left -= parts[name]
        chosen.append(name)
    return () if left else tuple(chosen)


def _near(faults: frozenset[Fault], own: Mapping[str, frozenset[Fault]]) -> Likeness:
    """The mutants with the largest Jaccard index (P. Jaccard, 1901: what both have of what either has)."""
    alike = {name: len(faults & found) / len(faults | found) for name, found in own.items()}
    best = max(alike.values(), default=0.0)
    if best < NEAR:
        return Likeness()
    return Likeness(how="near", mutants=tuple(name for name, value in alike.items() if value == best)[:SHOWN])


def _by_checks(faults: frozenset[Fault], blocked: Collection[str], signatures: Sequence[Signature]) -> Likeness:
    failed, hidden = {fault.check for fault in faults}, frozenset(blocked)
    same = tuple(each.name for each in signatures if each.fails and each.fails - hidden == failed)
    return Likeness(how="checks", mutants=same[:SHOWN]) if same else Likeness()
