"""What the tests of the comparers share: findings as lines, and tensors to compare."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from grader.model import Finding

NAN, INF = float("nan"), float("inf")


def lines(findings: Iterator[Finding]) -> list[str]:
    return [finding.sentence() for finding in findings]


def only(findings: Iterator[Finding]) -> str:
    (line,) = lines(findings)
    return line


def noise(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


GRADIENT = noise(4, 3)
SQUARE = noise(4, 4, seed=1)
