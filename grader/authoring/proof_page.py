"""What `verify` shows of a proof: who failed what, what the mutants are worth, and what is wrong."""

from __future__ import annotations

from collections import Counter

from grader.authoring.verify import ROUNDING, Kind, Proof
from grader.model import Outcome

MARKS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.BLOCKED: "·",
    Outcome.SKIPPED: "s",
    Outcome.BROKEN: "!",
}


def matrix(proof: Proof, width: int = 100) -> str:
    """The kill matrix: a row for each specimen, a column for each check."""
    checks = proof.exercise.checks
    longest = max((len(trial.specimen.name) for trial in proof.trials), default=0)
    lines = [f"{proof.exercise.name}  {len(proof.trials)} specimens in {proof.seconds:.1f} s", ""]
    lines += [f"  {number:2d}  {check.id}: {check.title}"[:width] for number, check in enumerate(checks, 1)]
    lines += ["", " " * (longest + 11) + " ".join(f"{number:2d}" for number in range(1, len(checks) + 1))]
    for trial in proof.trials:
        marks = " ".join(f" {MARKS[verdict.outcome]}" for verdict in trial.verdicts)
        wrong = "  ← wrong" if any(trial.breaches()) else ""
        lines.append(f"{trial.specimen.kind.value:8s}  {trial.specimen.name:{longest}s} {marks}{wrong}")
    return "\n".join([*lines, "", *histogram(proof), *summary(proof)]) + "\n"


def histogram(proof: Proof) -> list[str]:
    """How many mutants are worth 0 to 9 points, 10 to 19 and so on, in two lines; nothing where no mutant was tried."""
    tens = Counter(int(trial.points + ROUNDING) // 10 for trial in proof.trials if trial.specimen.kind is Kind.MUTANT)
    if not tens:
        return []
    rows = {"points": range(0, 110, 10), "mutants": (tens[ten] for ten in range(11))}
    return [*("  " + f"{name:9s}" + " ".join(f"{number:3d}" for number in row) for name, row in rows.items()), ""]


def summary(proof: Proof) -> list[str]:
    """The breaches, or one line that says that there are none."""
    if breaches := proof.breaches():
        return [f"✗ {breach}" for breach in breaches]
    mutants = sum(trial.specimen.kind is Kind.MUTANT for trial in proof.trials)
    known = sum(trial.remembered for trial in proof.trials)
    found = f"  {known} of {len(proof.trials)} from earlier proofs of the same content; --fresh tries all"
    return [
        *([found] if known else []),
        f"✓ all as expected: {mutants} mutants, each killed by exactly the checks that it names",
    ]
