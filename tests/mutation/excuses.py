"""Mutants of the small exercise, excused and counted."""

from __future__ import annotations

from pathlib import Path

from grader.authoring.mutation.runner import MutantOutcome, TriedMutant
from grader.authoring.mutation.score import Score, load
from tests import small

REDUCES, CLONES = "drop-statement | total | dist.all_reduce(result)", "drop-statement | total | result = value.clone()"


def excuse(root: Path, text: str) -> None:
    (root / "reference" / small.NAME / "equivalents.yaml").write_text(text)


def scored(root: Path, fates: dict[str, MutantOutcome], *, gpu: bool = False) -> Score:
    """A score of the small exercise in which these mutants had these fates and all others were killed."""
    subject = load(small.NAME, root)
    results = [
        TriedMutant(mutant=mutant, outcome=fates.get(mutant.identity, MutantOutcome.KILLED), seed=7, by="sums")
        for mutant in subject.mutants
    ]
    assert fates.keys() <= {mutant.identity for mutant in subject.mutants}
    return Score(subject=subject, control=(), results=tuple(results), gpu=gpu, seconds=2.0)
