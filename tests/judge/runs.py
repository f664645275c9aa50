"""Runs of the small exercise, made by hand."""

from __future__ import annotations

from pathlib import Path

import torch

from grader.model import Run, Submission, Verdict
from tests import small

SUBMISSION = Submission(path=Path("total.py"), source=b"", digest="")


def total(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def right_runs() -> list[Run]:
    one, two = torch.full((4,), 1.0, dtype=torch.float64), torch.full((4,), 3.0, dtype=torch.float64)
    return [small.sum_run(1, one), small.sum_run(2, two, two), small.bad_run("TypeError", "Exception")]


def outcomes(verdicts: tuple[Verdict, ...]) -> dict[str, str]:
    return {verdict.check.id: verdict.outcome.value for verdict in verdicts}
