"""Which hand-ins of a batch to look at beside one another, exercise by exercise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field

from grader.batch.report.tally import READING
from grader.batch.row import Row
from grader.batch.similarity import behaviour, code
from grader.batch.similarity.pairs import Pair, clusters, pairs

SHARED = 8
"""So many fingerprints two files must have in common: fewer are a line or two."""
TRAITS = 2
"""So many rare traits two hand-ins must have in common in what they did."""
MOST = 40
SCHEMA = "ranklings/similarity/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resembling:
    """Two hand-ins. `share` is what both have of what the smaller has, rare things counting more; `why` says what of
    their behaviour is the same."""

    first: str
    second: str
    share: float
    common: int
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resemblance:
    """One exercise. Hand-ins are called by their unit, or by whom they are of. `identical` are those with the same
    bytes, `groups` those that hang together by pairs, `alike` how many pairs there are, the closest of which are
    `pairs`."""

    exercise: str
    files: int
    alike: int
    identical: tuple[tuple[str, ...], ...]
    pairs: tuple[Resembling, ...]
    groups: tuple[tuple[str, ...], ...]
    behaviour: tuple[Resembling, ...]


@dataclass(slots=True)
class _Unit:
    """One file, and all who handed it in."""

    row: Row
    who: list[str] = field(default_factory=list)


Units = dict[str, _Unit]


def gathered(rows: Iterable[Row]) -> dict[str, Units]:
    """The files that people wrote, by exercise and unit: neither missing nor as they were given out."""
    found: dict[str, Units] = {}
    for row in rows:
        if row.counts and row.source_file and not row.untouched:
            unit = found.setdefault(row.exercise, {}).setdefault(row.unit, _Unit(row))
            unit.who.append(row.who)
    return dict(sorted(found.items()))


def source_of(row: Row) -> str:
    """The text of the submitted file; nothing where it cannot be read."""
    try:
        return path.read_bytes().decode(errors="replace") if (path := row.source_path) else ""
    except OSError:
        return ""


def resemblances(
    rows: Iterable[Row], template: Callable[[str], str], *, least: float = 0.4, names: bool = False
) -> tuple[Resemblance, ...]:
    """What resembles what. `template` gives the stub of an exercise, whose text is nobody's. Raises UsageError where
    copydetect is missing."""
    code.need_copydetect()
    return tuple(_resemblance(name, units, template(name), least, names) for name, units in gathered(rows).items())


def _resemblance(name: str, units: Units, template: str, least: float, names: bool) -> Resemblance:
    called = {key: _called(key, unit, names) for key, unit in units.items()}
    alike = pairs(
        {key: code.fingerprints(source_of(unit.row), template) for key, unit in units.items()},
        least=least,
        shared=SHARED,
    )
    did = pairs(_traits(units), least=0.0, shared=TRAITS)
    did.sort(key=lambda pair: -len(pair.common))
    return Resemblance(
        exercise=name,
        files=len(units),
        alike=len(alike),
        identical=tuple(_same(key, unit, names) for key, unit in units.items() if len(unit.who) > 1),
        pairs=tuple(_resembling(pair, called) for pair in alike[:MOST]),
        groups=tuple(tuple(called[key] for key in group) for group in clusters(alike) if len(group) > 2),
        behaviour=tuple(_resembling(pair, called, _why(pair)) for pair in did[:MOST]),
    )


def _traits(units: Units) -> dict[str, frozenset[behaviour.Feature]]:
    """What each hand-in did that few others did too."""
    found = {key: _features(unit.row) for key, unit in units.items()}
    return behaviour.rare(found)


def _features(row: Row) -> frozenset[behaviour.Feature]:
    try:
        report = row.report()
        return behaviour.features(report) if report else frozenset()
    except READING:
        return frozenset()


def _called(key: str, unit: _Unit, names: bool) -> str:
    return " = ".join(sorted(unit.who)) if names else key[:12]


def _same(key: str, unit: _Unit, names: bool) -> tuple[str, ...]:
    return tuple(sorted(unit.who)) if names else (f"{len(unit.who)} × {key[:12]}",)


def _resembling(pair: Pair, called: Mapping[str, str], why: tuple[str, ...] = ()) -> Resembling:
    return Resembling(
        first=called[pair.first], second=called[pair.second], share=pair.share, common=len(pair.common), why=why
    )


def _why(pair: Pair) -> tuple[str, ...]:
    return tuple(behaviour.told(feature) for feature in pair.common[:3] if isinstance(feature, behaviour.Feature))


def as_json(found: Iterable[Resemblance]) -> str:
    """All of it as data, ending with a newline."""
    exercises = [asdict(each) for each in found]
    return json.dumps({"schema": SCHEMA, "exercises": exercises}, ensure_ascii=False, indent=1) + "\n"
