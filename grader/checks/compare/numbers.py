"""Tensors as numbers: made comparable, whether two agree, which elements lie too far apart, and how to print those."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grader.checks.compare.question import Question
from grader.checks.tolerance import Tolerance, blocks, magnitude, tolerance
from grader.model import Value

if TYPE_CHECKING:
    import torch

SAMPLE = 4096
"""How many elements of a tensor decide quickly that a guess is wrong."""


def as_tensor(value: Value) -> torch.Tensor:
    """A dense CPU tensor without history; floats become float64."""
    import torch

    if not isinstance(value, torch.Tensor):
        return torch.tensor(value, dtype=torch.complex128 if isinstance(value, complex) else torch.float64)
    tensor = value.detach().cpu()
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as complex128, float64 or int64, whichever is of its sort."""
    import torch

    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64 if tensor.dtype.is_floating_point else torch.int64)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bit patterns as integers, [elements, words of an element]."""
    import torch

    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32}.get(tensor.element_size(), torch.int64)
    flat = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(words).reshape(flat.numel(), -1) if flat.numel() else flat.new_empty((0, 1), dtype=words)


def agrees(actual: torch.Tensor, expected: torch.Tensor, allowed: Tolerance, times: int = 1, parts: int = 1) -> bool:
    """Whether parts · actual = times · expected. A sample rules out most wrong guesses before the whole is read."""
    scale = magnitude(expected) * abs(times)
    sample = sampled(actual.reshape(-1), expected.reshape(-1))
    for seen, wanted in (sample, *zip(blocks(actual), blocks(expected), strict=True)):
        left = seen if parts == 1 else seen * parts
        right = wanted if times == 1 else wanted * times
        if allowed.exceeded(left, right, scale).any():
            return False
    return True


def sampled(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same elements of two flat tensors, evenly spread: at least SAMPLE of them, or all where there are fewer."""
    step = max(1, first.numel() // SAMPLE)
    return first[::step], second[::step]


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
    if actual.dtype == dtype and not _is_small_complex(dtype) and actual.equal(expected):
        return None  # most are the very same numbers, and this is what tells that fastest
    allowed = tolerance(dtype, question.reduction, question.terms)
    actual, expected = widened(actual), widened(expected)
    apart = allowed.exceeded(actual, expected)
    return measured(dtype, actual, expected, apart, allowed) if apart.any() else None


def _is_small_complex(dtype: torch.dtype) -> bool:
    """Whether torch has no `equal` for it."""
    import torch

    return dtype == torch.complex32


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
