"""How far two tensors may lie apart, and how much memory may be kept besides: the one place where numeric tolerances
are written down.

**The bound.** Adding n numbers one after the other in floating point makes an error of at most (n - 1)·u·Σ|xᵢ| to
first order, where u = ε/2 is the unit roundoff (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
ch. 4, "Summation"). Two orders of the same n terms therefore differ by at most (n - 1)·ε·Σ|xᵢ|, and n·ε covers it.
PyTorch promises no more: mathematically equal computations, such as a batch against its slices, need not be
bit-identical (PyTorch documentation, "Numerical accuracy").

**The safety factor.** The bound speaks of Σ|xᵢ|, but a grader sees only |Σxᵢ|, which cancellation makes smaller.
The factor ε^(-1/4) allows for that: a quarter of the dtype's digits is given away and three quarters are left to
judge by. In numbers, terms that are up to 8192 (float64), 54 (float32), 5.7 (float16) or 3.4 (bfloat16) times
larger than what is left of them at the tensor's largest element, and half as many times at one that vanishes.

**Steps.** After k dependent steps the errors of the steps have added up (Higham, ch. 3, lemma 3.1: a product of k
factors 1 + δ is off by about k·δ). A step of an optimizer is more than one rounding (forward, backward, the
moments, the update), so a step counts as STEP_ROUNDINGS terms.

**The ceiling.** However many terms, the bound is at most half of 1/1000 for float64 and float32, so that a missing
term of that weight cannot hide. Float16 and bfloat16 can hardly hold such a difference, or not at all; there it is
at most 8·ε (1/128 and 1/16), so that a wrong factor of 7/8 or further off cannot hide. Where the ceiling is lower
than the bound the dtype is too coarse for the question: judge in float64.

| REORDERED, terms=1 | float64 | float32 | float16 | bfloat16 |
|---|---|---|---|---|
| bound | 1.8e-12 | 6.4e-6 | 5.5e-3 | 2.6e-2 |

Half of the bound is relative to each element. The other half is relative to the largest magnitude of the expected
tensor, so that an element that cancels to zero among large ones does not fail, and a tensor of tiny values is not
swallowed. Integers and bools are always exact.

**Memory.** What a process keeps alive is a matter of bytes, never of tenths of a percent: what an exercise forbids is a
further copy, of everything or of a rank's share, and MEMORY_SLACK and MEMORY_BALANCE are far below that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

STEP_ROUNDINGS = 16
"""How many reordered terms one optimizer step counts for."""
CEILING = 1 / 2000
"""Half the weight of a term that must not go missing unseen."""
CEILING_EPSILONS = 8
"""The ceiling, in machine epsilons, of a dtype that cannot resolve CEILING."""
CEILING_OF_ALL = 1 / 8
"""What no dtype may exceed, float8 included, so that a wrong factor never hides."""

DIFFERENCE_ROUNDINGS = 2
"""Machine epsilons of a value by which the difference of it and the next one may miss the step between them: the step's
product, the sum, and the difference are rounded once each."""
MEMORY_SLACK = 0.1
"""What a rank may keep besides, as a fraction of the bytes that are dealt out among the ranks: step counts,
dictionaries, and the up to 4 KiB by which malloc rounds up each tensor."""
MEMORY_BALANCE = 1.2
"""How many times the mean of all ranks the fullest may keep, where no tensor exceeds a quarter of the mean. Who gives
each of them to the rank that has least, in any order, stays below 1 + (1 - 1/N) / 4: 1.17 for three ranks."""

MEMORY_UNSEEN = 3 << 19
"""Bytes by which a look from outside may be off, 1.5 MiB: pages that malloc and Python hold in parts, and threads.
Right solutions of 07, 10 and 12 were off by 0.7 MiB at most."""
MEMORY_IMPORTED = 64 << 20
"""Bytes that a rank may have before anything is measured because of what the student's file imports."""

BLOCK = 1 << 20
"""How many elements are looked at together, so that the temporaries of a large tensor stay in reused memory."""


class Reduction(Enum):
    """How the actual value was reduced, compared with the expected one."""

    EXACT = "exact"
    """No arithmetic between the two: copies, ranks among each other."""
    REORDERED = "reordered"
    """The same terms summed in another order, such as an all-reduce against one process."""
    ACCUMULATED = "accumulated"
    """Many dependent steps, such as the parameters after k optimizer steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Elements agree when |actual - expected| ≤ rtol·|expected| + atol_scale·(largest |expected| of the tensor)."""

    rtol: float
    atol_scale: float

    @property
    def exact(self) -> bool:
        return self.rtol == self.atol_scale == 0.0

    @property
    def bound(self) -> float:
        """The largest difference allowed, relative to the tensor's largest magnitude."""
        return self.rtol + self.atol_scale

    def exceeded(self, actual: torch.Tensor, expected: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        """A bool tensor: which elements lie further apart than allowed.

        Both are int64, float64 or complex128 of one shape. `scale` stands in for the largest magnitude of `expected`.
        NaN agrees only with NaN, an infinity only with itself.
        """
        if self.exact or not actual.numel():
            return _but_nan_with_nan(actual.ne(expected), actual, expected)
        absolute = self.atol_scale * (magnitude(expected) if scale is None else scale)
        if actual.numel() <= BLOCK:
            return self._exceeded(actual, expected, absolute)
        pairs = zip(blocks(actual), blocks(expected), strict=True)
        return _concatenated([self._exceeded(*pair, absolute) for pair in pairs]).reshape(expected.shape)

    def _exceeded(self, actual: torch.Tensor, expected: torch.Tensor, absolute: float) -> torch.Tensor:
        distance = (actual - expected).abs()
        worst = float(distance.max())
        if worst <= absolute:
            return distance.isnan()  # all False: a NaN would be the worst
        apart = distance > expected.abs().mul_(self.rtol).add_(absolute)
        if math.isfinite(worst):
            return apart
        return _but_nan_with_nan((apart | ~distance.isfinite()) & actual.ne(expected), actual, expected)


def blocks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The elements in order, as flat tensors of at most BLOCK elements."""
    flat = tensor.reshape(-1)
    return (flat[start : start + BLOCK] for start in range(0, flat.numel(), BLOCK))


def _concatenated(blocks: list[torch.Tensor]) -> torch.Tensor:
    import torch

    return torch.cat(blocks)


def _but_nan_with_nan(apart: torch.Tensor, actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    if not apart.any():
        return apart
    return apart & ~(actual.isnan() & expected.isnan())


def magnitude(tensor: torch.Tensor) -> float:
    """The largest magnitude among the finite elements; 0 where there is none."""
    if not tensor.numel():
        return 0.0
    if not tensor.is_complex():
        low, high = tensor.aminmax()
        largest = max(-float(low), float(high))
        if math.isfinite(largest):
            return largest
    sizes = tensor.abs()
    return float(sizes.where(sizes.isfinite(), 0).max())


def lost_in_difference(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """For each element how far `before - after` may be from a step that was no larger than `before`. Beside a large
    value a small step keeps few of its digits, of which no relative tolerance knows. Infinite where a value is."""
    return DIFFERENCE_ROUNDINGS * _epsilon(before.dtype) * before.abs().maximum(after.abs())


def tolerance(dtype: torch.dtype, reduction: Reduction, terms: int = 1) -> Tolerance:
    """The tolerance for results of `dtype`.

    `terms` is the number of terms of each sum (REORDERED) or of dependent steps (ACCUMULATED); EXACT ignores it.
    Raises ValueError where terms < 1.
    """
    if terms < 1:
        raise ValueError(f"terms must be at least 1 (got {terms})")
    if reduction is Reduction.EXACT or not (dtype.is_floating_point or dtype.is_complex):
        return Tolerance(rtol=0.0, atol_scale=0.0)
    epsilon = _epsilon(dtype)
    roundings = terms * (STEP_ROUNDINGS if reduction is Reduction.ACCUMULATED else 1)
    bound = min(roundings * epsilon * epsilon**-0.25, max(CEILING, CEILING_EPSILONS * epsilon), CEILING_OF_ALL)
    return Tolerance(rtol=bound / 2, atol_scale=bound / 2)


def _epsilon(dtype: torch.dtype) -> float:
    import torch

    return torch.finfo(dtype).eps
