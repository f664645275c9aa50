"""The mistake of a factor: summed where a mean was asked, divided twice, a wrong sign, all zeros."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from grader.checks.compare.numbers import Difference
from grader.checks.compare.question import Question
from grader.checks.compare.tensors import agrees, sampled
from grader.checks.tolerance import magnitude

if TYPE_CHECKING:
    import torch

LARGEST_FACTOR = 64
"""The largest n of a factor n or 1/n that is named."""

LARGEST_PARTS = 8
"""The largest number in any other fraction that is named, such as 3/2."""

COARSE = 1e-3
"""A tolerance above which two such fractions could be taken for one another."""


def factor(question: Question, difference: Difference) -> str | None:
    """A clause where actual = k · expected everywhere, for a telling k."""
    import torch

    actual, expected = difference.actual, difference.expected
    if difference.dtype == torch.bool or not expected.any():
        return None
    if not actual.any():
        return "all zeros" if actual.numel() > 1 else None
    times, parts = _telling(_ratio(actual, expected), fine=difference.allowed.bound < COARSE and actual.numel() > 1)
    if times == parts or not agrees(actual, expected, difference.allowed, times, parts):
        return None
    return _factor_text(times, parts, question.world_size)


def _ratio(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The k that brings k · expected nearest to actual by least squares, over a sample: the caller verifies it."""
    flat = actual.reshape(-1), expected.reshape(-1)
    few = sampled(*flat)
    if not few[1].any():
        few = flat
    scale = magnitude(few[1])  # so that no square overflows
    base, other = few[1] / scale, few[0] / scale
    return float((base.conj() * other).sum().real / (base.conj() * base).sum().real)


def _telling(ratio: float, *, fine: bool) -> tuple[int, int]:
    """The k = times/parts that a ratio is taken for; (1, 1) where it tells nothing.

    First n and 1/n, then other fractions of small numbers where the data are `fine` enough to tell these apart.
    """
    if not math.isfinite(ratio) or abs(ratio) < 0.5 / LARGEST_FACTOR:
        return 1, 1
    larger = ratio if abs(ratio) >= 1 else 1 / ratio
    whole = round(larger)
    if abs(larger - whole) < 0.05 and abs(whole) <= LARGEST_FACTOR:
        return (whole, 1) if abs(ratio) >= 1 else (int(math.copysign(1, whole)), abs(whole))
    simple = Fraction(ratio).limit_denominator(LARGEST_PARTS)
    if not fine or abs(simple.numerator) > LARGEST_PARTS:
        return 1, 1
    return simple.numerator, simple.denominator


def _factor_text(times: int, parts: int, world_size: int | None) -> str:
    if (times, parts) == (world_size, 1):
        return f"exactly world_size ({times}) times what it should be: summed where a mean was asked"
    if (times, parts) == (1, world_size):
        return f"exactly 1/world_size (1/{parts}) of what it should be: divided once too often"
    if (times, parts) == (-1, 1):
        return "exactly -1 times what it should be: the sign is wrong"
    if parts == 1:
        return f"exactly {'twice' if times == 2 else f'{times} times'} what it should be"
    return f"exactly {'half' if (times, parts) == (1, 2) else f'{times}/{parts}'} of what it should be"
