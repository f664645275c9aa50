"""A result in whole points, for platforms that know no others, as rows that add up.

The scaling, which `SCALING` declares: where every check is worth whole points, they stay as they are. Otherwise the
checks share the total by the method of largest remainders. The total is the result's points, so that an assignment of
40 points is one of 40; where that is no whole number, or less than a point a check, it is the points rounded, and at
least 100. So their parts add up to exactly the total and none is off by a whole point. A check that passed has
its whole part, one that did not has nothing. Late points are taken from an exercise's sum, rounded half up, and shared
among its passed checks by the same method.

A skipped check has no row, as it would be a red cross for hardware that the machine lacks, unless no other row is
left: a result without rows is taken for a pass. Checks that students do not see are for one row together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grader.model import Entry, Outcome, Report, Result, Verdict

WITHHELD = "Checks that are not shown"
SCALING = "Points are whole here: fractions are shared out by largest remainders, so that rows add up to the total."


def finite(value: float) -> float:
    """`value`, or 0.0 where it is infinite or not a number."""
    return float(value) if math.isfinite(value) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WholePoints:
    """One check in whole points."""

    entry: Entry
    verdict: Verdict
    score: int
    max_score: int

    @property
    def report(self) -> Report:
        return self.entry.report

    @property
    def counted(self) -> bool:
        return self.verdict.outcome.counted


def whole_points(result: Result) -> list[WholePoints]:
    """Every check of the result in order. A check that is not counted is worth nothing."""
    pairs = [(entry, verdict) for entry in result.entries for verdict in entry.report.verdicts]
    parts = iter(_shared(total(result), [_worth(entry, verdict) for entry, verdict in pairs]))
    made: list[WholePoints] = []
    for entry in result.entries:
        made += _scored(entry, [(verdict, next(parts)) for verdict in entry.report.verdicts])
    return made


def listed(result: Result) -> tuple[list[WholePoints], list[WholePoints]]:
    """The rows to show, and those of checks that students do not see."""
    every = whole_points(result)
    kept = [row for row in every if row.verdict.outcome is not Outcome.SKIPPED] or every
    shown = [row for row in kept if row.verdict.check.visibility == "visible"]
    return shown, [row for row in kept if row.verdict.check.visibility != "visible"]


def all_passed(every: Sequence[WholePoints]) -> bool:
    """Whether all of the rows' checks passed."""
    return all(row.verdict.outcome is Outcome.PASSED for row in every)


def total(result: Result) -> int:
    """What the rows' maxima add up to; 0 where no check is counted."""
    worths = [_worth(entry, verdict) for entry in result.entries for verdict in entry.report.verdicts]
    if not any(worth > 0 for worth in worths):
        return 0
    points = sum(worths)
    if math.isclose(points, round(points), abs_tol=1e-9) and points >= sum(worth > 0 for worth in worths):
        return round(points)
    return max(round(points), 100)


def _worth(entry: Entry, verdict: Verdict) -> float:
    return max(finite(verdict.check.points * entry.scale), 0.0) if verdict.outcome.counted else 0.0


def _scored(entry: Entry, own: Sequence[tuple[Verdict, int]]) -> list[WholePoints]:
    earned = [part if verdict.outcome is Outcome.PASSED else 0 for verdict, part in own]
    kept = min(max(finite(entry.kept), 0.0), 1.0)
    scores = earned if kept == 1.0 else _shared(math.floor(sum(earned) * kept + 0.5), earned)
    return [
        WholePoints(entry=entry, verdict=verdict, score=score, max_score=part)
        for (verdict, part), score in zip(own, scores, strict=True)
    ]


def _shared(amount: int, weights: Sequence[float]) -> list[int]:
    """`amount` in whole parts in proportion to the weights: largest remainders first, earlier ones where they tie."""
    weight = math.fsum(weights)
    if weight <= 0:
        return [0] * len(weights)
    exact = [amount * each / weight for each in weights]
    parts = [math.floor(each + 1e-9) for each in exact]
    order = sorted(range(len(parts)), key=lambda index: parts[index] - exact[index])
    for index in order[: amount - sum(parts)]:
        parts[index] += 1
    return parts
