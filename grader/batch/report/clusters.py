"""Wrong answers of a class in groups, by check and kind of finding, with the mutants that fail so. Pure."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from grader.batch.report.facts import Fault
from grader.batch.report.model import Cluster, Named, Unknown
from grader.batch.report.mutants import Likeness, Signature, likeness
from grader.batch.report.tally import ABSENT, ExerciseTally, Way

Key = tuple[str, frozenset[Fault]]
"""A check, and the faults that were found in it."""
MOST = 60
"""Groups of an exercise that are shown, the largest first."""
FAULTS = 6
NAMED = 4
WHO = 200


@dataclass(slots=True)
class _Group:
    places: array[int] = field(default_factory=lambda: array("I"))
    mutants: Counter[str] = field(default_factory=Counter)


def likenesses(tally: ExerciseTally, signatures: Sequence[Signature]) -> dict[Way, Likeness]:
    """For each way to go wrong the mutants that it is like."""
    return {way: likeness(*way, signatures) for way in tally.ways}


def known(tally: ExerciseTally, alike: Mapping[Way, Likeness]) -> int:
    """How many hand-ins fail like a mutant."""
    return sum(len(places) for way, places in tally.ways.items() if alike[way].how)


def clusters(
    tally: ExerciseTally, alike: Mapping[Way, Likeness], signatures: Sequence[Signature], names: bool
) -> tuple[Cluster, ...]:
    """The groups of an exercise, the largest first."""
    known = {each.name: each for each in signatures}
    groups = defaultdict[Key, _Group](_Group)
    for way, places in tally.ways.items():
        for key in _keys(way[0]):
            group = groups[key]
            group.places.extend(places)
            for name in alike[way].mutants:
                if _fails_so(known[name], key):
                    group.mutants[name] += len(places)
    judged = _judged(tally)
    largest = sorted(groups.items(), key=lambda pair: (-len(pair[1].places), pair[0][0], sorted(pair[0][1])))
    return tuple(_cluster(tally, key, group, known, judged.get(key[0], 0), names) for key, group in largest[:MOST])


def _keys(faults: frozenset[Fault]) -> Iterator[Key]:
    by_check = defaultdict[str, list[Fault]](list)
    for fault in faults:
        by_check[fault.check].append(fault)
    yield from ((check, frozenset(found)) for check, found in by_check.items())


def _fails_so(mutant: Signature, key: Key) -> bool:
    check, faults = key
    return bool(faults & mutant.faults) if mutant.faults else check in mutant.fails


def _judged(tally: ExerciseTally) -> dict[str, int]:
    width = len(tally.checks)
    text = "".join(letters.ljust(width, ABSENT) for letters in tally.letters)
    columns = {check: text[place::width] for place, check in enumerate(tally.checks)}
    return {check: own.count("P") + own.count("F") for check, own in columns.items()}


def _cluster(
    tally: ExerciseTally,
    key: Key,
    group: _Group,
    known: Mapping[str, Signature],
    judged: int,
    names: bool,
) -> Cluster:
    check, faults = key
    first = min(faults)
    named = sorted(group.mutants.items(), key=lambda pair: (-pair[1], pair[0]))[:NAMED]
    return Cluster(
        check=check,
        title=tally.checks[check].title,
        size=len(group.places),
        share=len(group.places) / max(1, judged),
        faults=tuple(fault.told() for fault in sorted(faults)[:FAULTS]),
        example=tally.sentences[first],
        unit=tally.units[group.places[0]],
        mutants=tuple(Named(name=name, mistake=known[name].mistake, number=number) for name, number in named),
        who=_who(tally, group.places, names),
    )


def _who(tally: ExerciseTally, places: Sequence[int], names: bool) -> tuple[str, ...]:
    return tuple(sorted(tally.who[place] for place in places[:WHO])) if names else ()


def unknown(tally: ExerciseTally, alike: Mapping[Way, Likeness], names: bool) -> tuple[Unknown, ...]:
    """The mistakes that no mutant has, the most frequent first."""
    found = [(way, places) for way, places in tally.ways.items() if not alike[way].how]
    found.sort(key=lambda pair: (-len(pair[1]), sorted(pair[0][0])))
    return tuple(
        Unknown(
            size=len(places),
            checks=tuple(sorted({fault.check for fault in faults})),
            example=tally.sentences[min(faults)],
            unit=tally.units[places[0]],
            who=_who(tally, places, names),
        )
        for (faults, _), places in found[:MOST]
    )
