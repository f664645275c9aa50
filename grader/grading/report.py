"""The report of a grade, from what its steps gave. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from grader.model import Exercise, Outcome, Report, Run, Submission, Verdict

MOST_LINES = 5
"""So many lines a note names."""


def summarise(
    exercise: Exercise,
    submission: Submission,
    runs: Sequence[Run],
    verdicts: Sequence[Verdict],
    *,
    seed: int,
    device: str,
    sandbox: str,
    seconds: float,
) -> Report:
    """The report of a grade. `seconds` is wall time."""
    return Report(
        exercise=exercise,
        submission=submission,
        verdicts=tuple(verdicts),
        runs=tuple(runs),
        seed=seed,
        device=device,
        sandbox=sandbox,
        seconds=seconds,
        torch_version=torch_version(),
        notes=(
            *(f"{run.case.id} was run a second time, because {run.retried}." for run in runs if run.retried),
            *unseen(runs),
            *refused_by_nccl(runs),
        ),
    )


def unseen(runs: Sequence[Run]) -> tuple[str, ...]:
    """That there was no witness, where there was none."""
    reasons = {run.witness.absent for run in runs if run.witness and run.witness.absent and run.case.world_size > 1}
    return tuple(
        f"What moved between the ranks' processes was not seen from outside, since {reason}."
        for reason in sorted(reasons)
    )


def refused_by_nccl(runs: Sequence[Run]) -> tuple[str, ...]:
    """Where the code communicates what gloo takes and NCCL does not: who has no GPU sees that nowhere else."""
    ranks = [record for run in runs for record in run.ranks if record.trace and record.device == "cpu"]
    calls = [call for record in ranks if record.trace for call in record.trace.communications if not call.contiguous]
    lines = sorted({call.line for call in calls if call.line is not None})
    if not lines:
        return ()
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines[:MOST_LINES]))}"
    return (
        f"Tensors that are not contiguous are communicated ({where}). That works here; on GPUs NCCL refuses them in "
        "collectives and sends their memory as it lies. Call .contiguous() before.",
    )


def device_of(runs: Sequence[Run]) -> str:
    """What the ranks really used: "cuda" if any of them did."""
    return "cuda" if any(record.device == "cuda" for run in runs for record in run.ranks) else "cpu"


def torch_version() -> str:
    """The installed torch, without importing it."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def not_graded(exercise: Exercise, submission: Submission, reason: str, *, seed: int, device: str) -> Report:
    """The report of an exercise that could not be graded through no fault of the student: no check counts."""
    verdicts = [Verdict(check=check, outcome=Outcome.BROKEN, message=reason) for check in exercise.checks]
    return summarise(exercise, submission, (), verdicts, seed=seed, device=device, sandbox="", seconds=0.0)
