"""Which mend comes next: none twice before all were seen, and rather what the person failed before. Pure."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.practice.mend.kept import Mend
from grader.practice.store import Attempt

MOST_FAILURES = 3
"""A check that failed in more attempts than this weighs no more."""
NOT_MENDED = 3
"""What it weighs that a mend was left or given up, or took longer than there was time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One that may be drawn: the exercise, the mutant's name, the checks that it fails."""

    exercise: str
    mutant: str
    fails: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        return self.exercise, self.mutant


def draw(offers: Sequence[Offer], mends: Sequence[Mend], attempts: Iterable[Attempt], seed: int) -> Offer:
    """One of those that were seen least often, never the last one again where there is another."""
    seen = Counter((mend.exercise, mend.mutant) for mend in mends)
    fewest = min(seen[offer.key] for offer in offers)
    fresh = [offer for offer in offers if seen[offer.key] == fewest]
    last = (mends[-1].exercise, mends[-1].mutant) if mends else None
    chosen = [offer for offer in fresh if offer.key != last] or fresh
    failures = failed_before(attempts, mends)
    weights = [weight(offer, failures, mends) for offer in chosen]
    return random.Random(seed).choices(chosen, weights)[0]


def failed_before(attempts: Iterable[Attempt], mends: Iterable[Mend]) -> Counter[tuple[str, str]]:
    """How often each check of an exercise failed: in attempts at it, and in grades of mends that were to pass it."""
    found = Counter[tuple[str, str]]()
    for attempt in attempts:
        found.update((attempt.exercise, check) for check, outcome in attempt.checks.items() if outcome == "failed")
    for mend in mends:
        found.update((mend.exercise, check) for grade in mend.grades for check in grade)
    return found


def weight(offer: Offer, failures: Counter[tuple[str, str]], mends: Sequence[Mend]) -> int:
    """1, and more for each time that a check of its failed, and where it was seen and is not mended yet."""
    known = sum(min(failures[offer.exercise, check], MOST_FAILURES) for check in offer.fails)
    tries = [mend for mend in mends if (mend.exercise, mend.mutant) == offer.key]
    return 1 + known + (NOT_MENDED if tries and tries[-1].status != "mended" else 0)
