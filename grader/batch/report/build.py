"""A class report from a tally. Pure."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from grader.batch.report import statistics
from grader.batch.report.clusters import clusters, known, likenesses, unknown
from grader.batch.report.model import (
    About,
    CheckReport,
    ClassReport,
    Deadlocks,
    ExerciseReport,
    Header,
    ListOf,
    Marks,
    Pair,
)
from grader.batch.report.mutants import Signature
from grader.batch.report.suspects import suspects
from grader.batch.report.tally import ABSENT, ExerciseTally, Tally, attempts, tally
from grader.batch.row import Row, Standing
from grader.judge import ODD

Signatures = Mapping[str, Sequence[Signature]]
PAIRS = 12
STANDSTILLS = 20


def class_report(
    rows: Iterable[Row], about: About | None = None, signatures: Signatures | None = None, *, names: bool = False
) -> ClassReport:
    """The report of a class. `signatures` are the mutants of each exercise; without `names` nobody is named."""
    with _uncollected():
        return _class_report(rows, about, signatures, names)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cycles, of which none is made here: it would look again and again at all that is kept
    of a hundred thousand rows, and take longer than the report itself."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _class_report(rows: Iterable[Row], about: About | None, signatures: Signatures | None, names: bool) -> ClassReport:
    found = tally(rows)
    marks = np.array([earned / most for earned, most in found.people.values() if most], dtype=np.float64)
    return ClassReport(
        header=_header(found, about or About()),
        marks=_marks(marks),
        exercises=tuple(
            exercise_report(found.exercises[name], (signatures or {}).get(name, ()), names)
            for name in sorted(found.exercises)
        ),
        named=names,
    )


def _header(found: Tally, about: About) -> Header:
    standing = sum((each.standing for each in found.exercises.values()), Counter[Standing]())
    seeds = {about.seed} if about.seed is not None else found.seeds
    torch = ", ".join(sorted(filter(None, found.torch)))
    return Header(
        title=about.title,
        people=len(found.people),
        expected=standing.total(),
        graded=standing[Standing.FINAL],
        waiting=standing[Standing.EXPECTED],
        broken=standing[Standing.BROKEN],
        quarantined=standing[Standing.QUARANTINED],
        unstable=sum(len(each.unstable) for each in found.exercises.values()),
        identical=sum(number for number in found.units.values() if number > 1),
        core_hours=found.cpu / 3600,
        overhead=found.seconds / found.busy if found.busy else None,
        versions={"torch": torch, **about.versions} if torch else dict(about.versions),
        seed=str(next(iter(seeds))) if len(seeds) == 1 else f"one for each unit ({len(seeds)})" if seeds else "",
    )


def _marks(shares: statistics.Floats) -> Marks:
    """Of those that there are: a hand-in without a mark is in no histogram."""
    marked = shares[~np.isnan(shares)]
    return Marks(
        number=len(marked),
        tens=statistics.histogram(marked),
        quartiles=statistics.quartiles(marked),
        mean=float(marked.mean()) if len(marked) else 0.0,
    )


def exercise_report(exercise: ExerciseTally, signatures: Sequence[Signature], names: bool) -> ExerciseReport:
    """One exercise."""
    shares = np.array(exercise.shares)
    letters = _letters(exercise)
    checks = _checks(exercise, letters, shares)
    marked = ~np.isnan(shares)
    failed = letters == ord("F")
    alike = likenesses(exercise, signatures)
    return ExerciseReport(
        name=exercise.name,
        title=exercise.title,
        weight=exercise.weight,
        number=len(exercise.marks),
        tried=len(exercise.who),
        marks=_marks(np.array(exercise.marks)),
        checks=checks,
        suspects=suspects(
            checks, shares[marked], (failed | (letters == ord("B")))[marked], exercise.flipped, _odd(exercise)
        ),
        wrong=sum(map(len, exercise.ways.values())),
        known=known(exercise, alike),
        graded_mutants=any(each.faults for each in signatures),
        clusters=clusters(exercise, alike, signatures, names),
        unknown=unknown(exercise, alike, names) if signatures else (),
        endings=tuple(exercise.endings.most_common()),
        deadlocks=_deadlocks(exercise),
        pairs=_pairs(failed, list(exercise.checks)),
        lists=_lists(exercise, names),
    )


def _odd(exercise: ExerciseTally) -> dict[str, list[str]]:
    """By check what it said, for each hand-in where it raised something of its own over what was recorded."""
    found: dict[str, list[str]] = {}
    for (faults, _), places in exercise.ways.items():
        for fault in (fault for fault in faults if fault.subject == ODD):
            found.setdefault(fault.check, []).extend([exercise.sentences.get(fault, fault.told())] * len(places))
    return found


def _letters(exercise: ExerciseTally) -> statistics.Codes:
    """A letter as a number for each hand-in and check."""
    width = len(exercise.checks)
    text = "".join(letters.ljust(width, ABSENT) for letters in exercise.letters)
    return np.frombuffer(text.encode(), dtype=np.uint8).reshape(len(exercise.letters), width)


def _checks(exercise: ExerciseTally, letters: statistics.Codes, shares: statistics.Floats) -> tuple[CheckReport, ...]:
    points = [check.points for check in exercise.checks.values()]
    passed, failed = letters == ord("P"), letters == ord("F")
    marked = ~np.isnan(shares)
    judged = passed | failed
    strength = statistics.discrimination(passed[marked], judged[marked], points)
    fifths = statistics.by_quintile(shares[marked], passed[marked], judged[marked])
    tried = attempts(exercise)
    worth = exercise.weight / (sum(points) or 1.0)
    made = []
    for column, check in enumerate(exercise.checks.values()):
        number = {name: int((letters[:, column] == ord(name)).sum()) for name in "PFBSX"}
        both = number["P"] + number["F"]
        made.append(
            CheckReport(
                id=check.id,
                title=check.title,
                points=check.points,
                judged=both,
                passed=number["P"],
                failed=number["F"],
                blocked=number["B"],
                skipped=number["S"],
                broken=number["X"],
                rate=number["P"] / both if both else None,
                interval=statistics.wilson(number["P"], both),
                blocked_rate=number["B"] / max(1, len(letters)),
                discrimination=strength[column],
                quintiles=fifths[column],
                cost=check.points * worth * (number["F"] + number["B"]),
                attempts=_in_order(tried.get(check.id, Counter())),
            )
        )
    return tuple(made)


def _in_order(tried: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(tried.get(number, 0) for number in range(1, max(tried, default=0) + 1))


def _deadlocks(exercise: ExerciseTally) -> tuple[Deadlocks, ...]:
    """By calls; the lines differ from file to file, so they are one file's."""
    places: dict[tuple[str, ...], set[int]] = {}
    least: dict[tuple[str, ...], tuple[int, int, tuple[int, ...]]] = {}
    for standstill, own in exercise.standstills.items():
        places.setdefault(standstill.calls, set()).update(own)
        first = (standstill.world_size, own[0], standstill.lines)
        least[standstill.calls] = min(first, least.get(standstill.calls, first))
    made = [
        Deadlocks(
            calls=calls,
            lines=least[calls][2],
            size=len(own),
            world_size=least[calls][0],
            unit=exercise.units[least[calls][1]],
        )
        for calls, own in places.items()
    ]
    return tuple(sorted(made, key=lambda each: (-each.size, each.calls))[:STANDSTILLS])


def _pairs(failed: statistics.Flags, checks: Sequence[str]) -> tuple[Pair, ...]:
    """Checks that fail together more often than by chance, the most telling first."""
    strength = statistics.phi(failed)
    both = statistics.together(failed.astype(np.float64))
    made = [
        Pair(first=checks[one], second=checks[other], both=int(both[one, other]), phi=float(strength[one, other]))
        for one in range(len(checks))
        for other in range(one + 1, len(checks))
        if both[one, other] and strength[one, other] > 0
    ]
    return tuple(sorted(made, key=lambda pair: (-pair.phi, -pair.both))[:PAIRS])


def _lists(exercise: ExerciseTally, names: bool) -> dict[str, ListOf]:
    plain = {"late": exercise.late, "uncompilable": exercise.uncompilable}
    found: dict[str, Mapping[str, str]] = {
        "missing": dict.fromkeys(exercise.missing, ""),
        "untouched": dict.fromkeys(exercise.untouched, ""),
        **plain,
        "broken": dict.fromkeys(exercise.broken, ""),
        "quarantined": dict.fromkeys(exercise.quarantined, ""),
        "unstable": dict.fromkeys(exercise.unstable, ""),
    }
    return {
        kind: ListOf(number=len(who), who=tuple(sorted(who.items())) if names else ()) for kind, who in found.items()
    }
