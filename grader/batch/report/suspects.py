"""Checks that may be at fault themselves, because of what a class made of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from grader.batch.report.model import CheckReport, Suspect
from grader.batch.report.statistics import LEAST, Flags, Floats
from grader.model.words import count

LOW = 0.1
"""Below this a check says little of what the other checks say (R. L. Ebel, "Essentials of Educational Measurement",
calls 0.2 poor)."""
GOOD = 0.9
EITHER = 3
"""So many must pass, and so many fail, before a low discrimination is more than chance."""


def suspects(
    checks: Sequence[CheckReport],
    shares: Floats,
    failed: Flags,
    flipped: Mapping[str, int],
    odd: Mapping[str, Sequence[str]],
) -> tuple[Suspect, ...]:
    """The checks with a reason for suspicion, in the author's order. `odd` has for each check what it said where it
    raised something of its own, once for each such hand-in."""
    lonely = _lonely(shares, failed)
    found = []
    for check, alone in zip(checks, lonely, strict=True):
        reasons = tuple(_reasons(check, alone, flipped.get(check.id, 0), odd.get(check.id, ())))
        if reasons:
            found.append(Suspect(check=check.id, title=check.title, reasons=reasons))
    return tuple(found)


def _lonely(shares: Floats, failed: Flags) -> list[int]:
    """For each check how many hand-ins with 90 % or more fail it and nothing else."""
    chosen = (shares >= GOOD - 1e-9) & (failed.sum(axis=1) == 1)
    return [int(number) for number in failed[chosen].sum(axis=0)]


def _reasons(check: CheckReport, lonely: int, flipped: int, odd: Sequence[str]) -> Iterator[str]:
    if flipped:
        yield f"its verdict flipped when {count(flipped, 'hand-in')} of the same bytes ran twice"
    if check.broken:
        yield f"it was broken in {count(check.broken, 'hand-in')}"
    if odd:
        whose = "all that failed it" if len(odd) == check.failed else count(len(odd), "hand-in")
        yield f"it raised something of its own, for {whose}: {odd[0]}"
    told = min(check.passed, check.failed) >= EITHER
    if told and check.discrimination is not None and check.discrimination < LOW:
        number = f"{check.discrimination:.2f}".replace("-", "−")
        yield f"it hardly goes with the other checks (discrimination {number})"
    if check.judged >= LEAST and check.passed in (0, check.judged):
        yield "nobody passes it" if not check.passed else "everybody passes it, so it tells nobody apart"
    if lonely:
        yield f"{count(lonely, 'hand-in')} with 90 % or more {'fails' if lonely == 1 else 'fail'} this check alone"
