"""Everything about one grade as one value, and the choices that belong to it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from grader.model import Exercise, Report, Run, Submission, Verdict


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
        notes=tuple(f"{run.case.id} was run a second time, because {run.retried}." for run in runs if run.retried),
    )


def torch_version() -> str:
    """The installed torch, without importing it."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""
