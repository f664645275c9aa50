"""One pass over the rows of a batch: what is counted and kept of each exercise, without keeping a report.

A report is read once for each file of reports, however many people handed in the same; of a row there stay a letter
for each check, a number and its name.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from grader.batch.report.facts import Check, Facts, Fault, Standstill, facts_of
from grader.batch.report.summary import facts_in
from grader.batch.row import Row, Standing

REMEMBERED = 20_000
"""Facts that are kept in memory for others with the same report, the newest: some 100 MB at most."""
READING = (OSError, LookupError, TypeError, ValueError, AttributeError)
"""What reading a report raises where there is none, or something else."""
ABSENT = "-"
"""The letter of a check that a report does not have."""


Way = tuple[frozenset[Fault], frozenset[str]]
"""A way to go wrong: the faults of the checks that failed, and the checks that were blocked."""


@dataclass(slots=True)
class ExerciseTally:
    """What is known of one exercise. `who`, `units`, `letters` (one for each check), `shares` and `attempt` are of
    those hand-ins that say something of checks: begun, and of a form that Python compiles. `marks` has all marks."""

    name: str
    title: str = ""
    weight: float = 0.0
    checks: dict[str, Check] = field(default_factory=dict)
    who: list[str] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    shares: array[float] = field(default_factory=lambda: array("d"))
    """What each earned of what could be, before lateness; NaN where there is no mark."""
    marks: array[float] = field(default_factory=lambda: array("d"))
    """The same with lateness."""
    ways: dict[Way, array[int]] = field(default_factory=dict)
    """The places of the hand-ins that went wrong in each way."""
    sentences: dict[Fault, str] = field(default_factory=dict)
    endings: Counter[str] = field(default_factory=Counter)
    standstills: dict[Standstill, list[int]] = field(default_factory=dict)
    late: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)
    uncompilable: dict[str, str] = field(default_factory=dict)
    unstable: list[str] = field(default_factory=list)
    flipped: Counter[str] = field(default_factory=Counter)
    standing: Counter[Standing] = field(default_factory=Counter)
    quarantined: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    attempt: array[int] = field(default_factory=lambda: array("H"))
    earlier: dict[str, list[tuple[int, frozenset[str]]]] = field(default_factory=dict)
    """Hand-ins that do not count, of whoever has some: their number, and the checks that they passed."""


@dataclass(slots=True)
class Tally:
    """What is known of the batch."""

    exercises: dict[str, ExerciseTally] = field(default_factory=dict)
    people: dict[str, list[float]] = field(default_factory=dict)
    """For each person the points earned and those that could be; NaN points where an exercise has no mark."""
    units: dict[str, int] = field(default_factory=dict)
    """How many hand-ins each unit stands for, those that are missing left out."""
    seeds: set[int] = field(default_factory=set)
    torch: set[str] = field(default_factory=set)
    cpu: float = 0.0
    seconds: float = 0.0
    busy: float = 0.0


def tally(rows: Iterable[Row]) -> Tally:
    """Everything that the report needs, in one pass."""
    made, known = Tally(), dict[str, Facts | None]()
    for row in rows:
        exercise = made.exercises.get(row.exercise) or made.exercises.setdefault(row.exercise, _fresh(row))
        facts = _read(row, known, exercise.sentences)
        if row.counts:
            _count(made, exercise, row, facts)
        elif facts is not None:
            exercise.earlier.setdefault(row.who, []).append((row.attempt, facts.those("P")))
    return made


def _fresh(row: Row) -> ExerciseTally:
    return ExerciseTally(row.exercise)


def _read(row: Row, known: dict[str, Facts | None], sentences: dict[Fault, str]) -> Facts | None:
    """The facts of a row's report, whose new sentences join the others; each file is read once, and not at all
    where the row has them in short and nothing is new. None where there is none, or none that can be read."""
    path = row.report_file
    if row.standing is not Standing.FINAL or not path:
        return None
    if (summed := facts_in(row.summary)) is not None and summed.faults <= sentences.keys():
        return summed
    if path not in known:
        if len(known) >= REMEMBERED:
            del known[next(iter(known))]
        try:
            report = row.report()
            known[path] = facts = facts_of(report, sentences) if report else None
            sentences |= facts.sentences if facts else {}
        except READING:
            known[path] = None
    return known[path]


def _count(made: Tally, exercise: ExerciseTally, row: Row, facts: Facts | None) -> None:
    exercise.weight = row.weight
    standing = row.standing
    if standing is Standing.FINAL and (facts is None or facts.share is None):
        standing = Standing.BROKEN
    exercise.standing[standing] += 1
    if row.unit not in made.units:
        made.seeds.add(row.seed)
        made.cpu, made.seconds, made.busy = made.cpu + row.cpu, made.seconds + row.seconds, made.busy + row.busy
    handed_in = bool(row.source_file)  # nothing is no copy of nothing
    made.units[row.unit] = made.units.get(row.unit, 0) + handed_in
    _file(exercise, row, standing)
    earned = made.people.setdefault(row.who, [0.0, 0.0])
    share = float("nan") if facts is None or facts.share is None else facts.share
    earned[0] += share * row.kept * row.weight
    earned[1] += row.weight
    if facts is None:
        return
    made.torch.add(facts.torch)
    exercise.title = facts.title
    exercise.marks.append(share * row.kept)
    if facts.uncompilable and row.source_file:
        exercise.uncompilable[row.who] = facts.uncompilable
    if not (row.untouched or facts.uncompilable):
        _judged(exercise, row, facts, share)


def _file(exercise: ExerciseTally, row: Row, standing: Standing) -> None:
    """Who is in which of the lists."""
    if row.late:
        exercise.late[row.who] = row.late
    if not row.source_file:
        exercise.missing.append(row.who)
    for flag, names in ((row.untouched, exercise.untouched), (row.unstable, exercise.unstable)):
        if flag:
            names.append(row.who)
    for kind, names in ((Standing.BROKEN, exercise.broken), (Standing.QUARANTINED, exercise.quarantined)):
        if standing is kind:
            names.append(row.who)
    if row.flipped:
        exercise.flipped.update(row.flipped)


def _judged(exercise: ExerciseTally, row: Row, facts: Facts, share: float) -> None:
    place = len(exercise.who)
    exercise.who.append(row.who)
    exercise.units.append(row.unit)
    exercise.letters.append(_letters(exercise, facts))
    exercise.shares.append(share)
    exercise.attempt.append(min(row.attempt, 65_535))
    if facts.endings:
        exercise.endings.update(facts.endings)
    for standstill in facts.standstills:
        exercise.standstills.setdefault(standstill, []).append(place)
    if facts.faults:
        exercise.ways.setdefault((facts.faults, facts.blocked), array("I")).append(place)


def _letters(exercise: ExerciseTally, facts: Facts) -> str:
    """The outcomes in the order of the exercise's checks, which grow where a report has others."""
    if tuple(exercise.checks.values()) == facts.checks:
        return facts.outcomes
    for check in facts.checks:
        exercise.checks.setdefault(check.id, check)
    own = {check.id: letter for check, letter in zip(facts.checks, facts.outcomes, strict=True)}
    return "".join(own.get(check, ABSENT) for check in exercise.checks)


def attempts(exercise: ExerciseTally) -> dict[str, Counter[int]]:
    """For each check, after how many hand-ins people passed it first; empty where nobody handed in more than once."""
    if not exercise.earlier:
        return {}
    made: dict[str, Counter[int]] = {check: Counter() for check in exercise.checks}
    for who, number, letters in zip(exercise.who, exercise.attempt, exercise.letters, strict=True):
        own = frozenset(check for check, letter in zip(exercise.checks, letters, strict=False) if letter == "P")
        hand_ins = sorted([(number, own), *exercise.earlier.get(who, ())], key=lambda pair: pair[0])
        for check in exercise.checks:
            first = next((place for place, (_, passed) in enumerate(hand_ins, 1) if check in passed), None)
            if first is not None:
                made[check][first] += 1
    return made
