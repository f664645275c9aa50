"""What a proof finds wrong: a solution that fails, a broken check, and mutants that cost too few points."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import catalog
from grader.authoring.memory import Memory
from grader.authoring.proof_page import histogram, matrix
from grader.authoring.verify import Kind, Proof, Specimen, Trial, verify
from grader.model import Exercise, Outcome, Verdict
from tests import small
from tests.proofs import trials


def test_where_the_solution_fails_the_rest_is_not_tried(
    root: Path, path: Path, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its breach is told at once; that no mutant fails a check is no news then."""
    monkeypatch.setattr(trials, "as_it_must", failing_everything)
    proof = verify(small.NAME, root, memory=Memory(path))
    assert tried == ["stub", "solution"] and len(proof.trials) == 2
    *wrong, last = proof.breaches()
    assert len(wrong) == 3 and all("solution" in breach for breach in wrong)
    assert last == "4 specimens were not tried: first the solution has to pass"


def failing_everything(exercise: Exercise, specimen: Specimen) -> Trial:
    verdicts = tuple(Verdict(check=check, outcome=Outcome.FAILED, message="no") for check in exercise.checks)
    return Trial(specimen=specimen, verdicts=verdicts, seed=4, seconds=0.1)


def test_a_broken_check_is_told_once(root: Path) -> None:
    """With what it says, and for how many specimens; that it did not pass or fail is not told as well."""
    exercise = catalog.load(small.NAME, root)
    message = "checks.py:3: no case family 'x' in exercise.yaml"
    verdicts = tuple(
        Verdict(check=c, outcome=Outcome.BROKEN if c.id == "same" else Outcome.PASSED, message=message)
        for c in exercise.checks
    )
    kinds = [(Kind.SOLUTION, "solution"), (Kind.VARIANT, "gathers"), (Kind.VARIANT, "other")]
    made = [Specimen(kind=kind, name=name, path=path_of(root), source=b"") for kind, name in kinds]
    trials = tuple(Trial(specimen=specimen, verdicts=verdicts, seed=1, seconds=0.1) for specimen in made)
    found = Proof(exercise=exercise, trials=trials, seconds=0.1).breaches()
    assert found[0] == f"solution solution (seed 1) and 2 more: check same is broken: {message}"
    assert all(breach.startswith("no mutant fails") for breach in found[1:])


REASON = "  below_60: The sum is all that the exercise is about.\n"


def edited(root: Path, old: str, new: str) -> None:
    mutants = root / "reference" / small.NAME / "mutants.yaml"
    assert mutants.read_text().count(old) == 1
    mutants.write_text(mutants.read_text().replace(old, new))


# -- fair marks --------------------------------------------------------------------------------------------------------


def test_a_mutant_worth_less_than_60_points_is_a_breach_unless_its_author_says_why(
    root: Path, path: Path, tried: list[str]
) -> None:
    """It is named with its points. What was proved of it stays proved: the sentence costs no trial."""
    edited(root, REASON, "")
    proof = verify(small.NAME, root, memory=Memory(path))
    (breach,) = proof.breaches()
    assert breach.startswith("mutant forgets_to_reduce: 50 points for one mistake; ") and "below_60" in breach
    assert f"✗ {breach}" in matrix(proof)
    edited(root, "  fails: [sums]\n", "  fails: [sums]\n" + REASON)
    tried.clear()
    assert verify(small.NAME, root, memory=Memory(path)).breaches() == [] and tried == []


def test_a_reason_that_is_not_needed_is_a_breach(root: Path, path: Path, tried: list[str]) -> None:
    """So that none outlives the checks that it was written for."""
    edited(root, "  fails: [same]\n", "  fails: [same]\n" + REASON)
    (breach,) = verify(small.NAME, root, memory=Memory(path)).breaches()
    assert breach == "mutant adds_its_rank: 70 points, so its `below_60` says nothing; take it away"


def test_points_are_of_those_that_are_counted(root: Path) -> None:
    """As in a grade: hardware that is absent takes its checks out, and 60 exactly is enough."""
    exercise = catalog.load(small.NAME, root)
    specimen = Specimen(kind=Kind.MUTANT, name="m", path=path_of(root), source=b"", fails=frozenset({"refuses"}))
    outcomes = [Outcome.PASSED, Outcome.SKIPPED, Outcome.FAILED]
    verdicts = tuple(Verdict(check=c, outcome=o) for c, o in zip(exercise.checks, outcomes, strict=True))
    trial = Trial(specimen=specimen, verdicts=verdicts, seed=1, seconds=0.1)
    assert trial.points == pytest.approx(100 * 50 / 70) and list(trial.unfair()) == []


def path_of(root: Path) -> Path:
    return root / "reference" / small.NAME / "total.py"


def test_the_page_has_a_histogram_of_the_points(root: Path, path: Path, tried: list[str]) -> None:
    """Tens of points, and how many mutants are worth them."""
    proof = verify(small.NAME, root, memory=Memory(path))
    points, mutants, _ = histogram(proof)
    assert points.split() == ["points", *(str(ten) for ten in range(0, 110, 10))]
    assert mutants.split() == ["mutants", *"00000101100"] and points in matrix(proof)
    assert histogram(Proof(exercise=proof.exercise, trials=(), seconds=0.0)) == []
