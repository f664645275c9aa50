"""Trials without a rank."""

from __future__ import annotations

from grader.authoring.verify import Kind, Specimen, Trial
from grader.model import Exercise, Outcome, Verdict


def as_it_must(exercise: Exercise, specimen: Specimen) -> Trial:
    """A trial in which a specimen fails what its author says."""
    failed = {"sums"} if specimen.kind is Kind.STUB else specimen.fails
    passed = Outcome.BLOCKED if specimen.kind is Kind.STUB else Outcome.PASSED
    verdicts = [Verdict(check=c, outcome=Outcome.FAILED if c.id in failed else passed) for c in exercise.checks]
    return Trial(specimen=specimen, verdicts=tuple(verdicts), seed=3, seconds=0.1)
