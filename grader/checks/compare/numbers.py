"""Tensors that lie too far apart: which elements, how far, and how to print them so that the difference shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grader.checks.compare.question import Question
from grader.checks.compare.tensors import as_tensor, bits, widened
from grader.checks.tolerance import Tolerance, tolerance
from grader.model import Value

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two tensors of one shape and dtype that lie too far apart.

    `actual` and `expected` are widened (int64, float64, complex128); `apart` marks the elements at fault.
    """

    dtype: torch.dtype
    actual: torch.Tensor
    expected: torch.Tensor
    apart: torch.Tensor
    allowed: Tolerance
    distance: torch.Tensor
    """|actual - expected| of every element, float64."""

    finite: bool
    """Whether all of `distance` is finite."""
    largest: int
    """The flat index of the largest difference; of the first non-finite one where there is any."""

    def at(self, flat: int) -> tuple[str, str, str]:
        """Expected, actual and " at [index]" of one element, as text."""
        expected, actual = self.expected.reshape(-1)[flat].item(), self.actual.reshape(-1)[flat].item()
        return *distinct_numbers(expected, actual, self.dtype), index_text(flat, self.actual.shape)


def difference_between(question: Question, actual: Value, expected: Value) -> Difference | None:
    """How two numeric values differ by more than the question allows; None where they do not."""
    actual, expected = as_tensor(actual), as_tensor(expected)
    dtype = expected.dtype
    if bits(actual).equal(bits(expected)):
        return None
    allowed = tolerance(dtype, question.reduction, question.terms)
    actual, expected = widened(actual), widened(expected)
    apart = allowed.exceeded(actual, expected)
    return measured(dtype, actual, expected, apart, allowed) if apart.any() else None


def measured(
    dtype: torch.dtype, actual: torch.Tensor, expected: torch.Tensor, apart: torch.Tensor, allowed: Tolerance
) -> Difference:
    """How far two widened tensors are apart, where the mask `apart` has at least one element."""
    # Integers are subtracted as float64, in which the difference of two int64 cannot overflow.
    distance = (actual - expected if actual.is_complex() else actual.double() - expected.double()).abs()
    finite = math.isfinite(float(distance.max()))
    ranked = distance if finite else distance.nan_to_num(nan=math.inf, posinf=math.inf)
    return Difference(
        dtype=dtype,
        actual=actual,
        expected=expected,
        apart=apart,
        allowed=allowed,
        distance=distance,
        finite=finite,
        largest=int(ranked.where(apart, -1.0).argmax()),
    )


def extent(difference: Difference) -> str:
    """How many elements differ and by how much."""
    import torch

    count, total = int(difference.apart.sum()), difference.apart.numel()
    if total == 1:
        return ""
    counted = f"{'all' if count == total else f'{count} of'} {total} elements differ"
    if difference.dtype == torch.bool:
        return counted
    by = float(difference.distance.reshape(-1)[difference.largest])
    return f"{counted}, by {by:.3g} at most" if by and math.isfinite(by) else counted


def index_text(flat: int, shape: Sequence[int]) -> str:
    """ " at [2, 0]"; nothing for a single number."""
    index: list[int] = []
    for size in reversed(shape):
        flat, position = divmod(flat, size)
        index.insert(0, position)
    return f" at {index}" if index else ""


def distinct_numbers(expected: Any, actual: Any, dtype: torch.dtype) -> tuple[str, str]:
    """Both numbers with as few digits as show that they differ: at least 10 for float64, else 6."""
    import torch

    if not (dtype.is_floating_point or dtype.is_complex):
        return (str(bool(expected)), str(bool(actual))) if dtype == torch.bool else (str(expected), str(actual))
    if expected != actual:  # so that no zero is shown as -0 where its sign is not the point
        expected, actual = expected + 0.0, actual + 0.0
    for digits in range(10 if dtype in (torch.float64, torch.complex128) else 6, 18):
        texts = f"{expected:.{digits}g}", f"{actual:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts
