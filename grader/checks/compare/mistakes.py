"""What the mistake looks like: one clause on a tensor that is wrong, only where it holds for all of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from grader.checks.compare.numbers import Difference, agrees, as_tensor, sampled, widened
from grader.checks.compare.question import Path, Question
from grader.checks.compare.text import is_numeric
from grader.checks.tolerance import magnitude
from grader.model import Value

if TYPE_CHECKING:
    import torch

MOST_ROWS = 1_000_000
"""How many rows are sorted at most, to see whether they only changed places."""


def diagnosis(question: Question, path: Path, difference: Difference) -> str:
    """The first guess that holds for the whole tensor, else which part of it is wrong, else nothing."""
    guesses: tuple[Callable[[], str | None], ...] = (
        lambda: _named_alternative(question, path, difference),
        lambda: _unchanged(question, path, difference),
        lambda: factor(question, difference),
        lambda: _rearranged(difference),
        lambda: _part(question, path, difference),
        lambda: _nearly(difference),
    )
    return next((clause for guess in guesses if (clause := guess())), "")


def _named_alternative(question: Question, path: Path, difference: Difference) -> str | None:
    for label, values in question.alternatives.items():
        other = _counterpart(values, path, difference)
        if other is None or not _plausible(difference, other):
            continue
        if agrees(difference.actual, widened(other), difference.allowed):
            return label
    return None


def _unchanged(question: Question, path: Path, difference: Difference) -> str | None:
    start = _counterpart(question.stale, path, difference)
    if start is None or not _plausible(difference, start):
        return None
    return "unchanged since the start" if widened(start).equal(difference.actual) else None


def _plausible(difference: Difference, other: torch.Tensor) -> bool:
    """Whether a sample of `other` agrees with the actual values; spares most others from being widened and read."""
    seen, wanted = sampled(difference.actual.reshape(-1), other.reshape(-1))
    return not difference.allowed.exceeded(seen, widened(wanted), 2 * magnitude(difference.actual)).any()


def _counterpart(values: Value, path: Path, difference: Difference) -> torch.Tensor | None:
    """The entry of `values` at `path`; None where it has none of the same shape and dtype."""
    try:
        for step in path:
            values = values[step]
    except (KeyError, IndexError, TypeError):
        return None
    if not is_numeric(values):
        return None
    tensor = as_tensor(values)
    fits = tensor.shape == difference.expected.shape and tensor.dtype == difference.dtype
    return tensor if fits else None


def _rearranged(difference: Difference) -> str | None:
    """A clause where the expected values are all there, but elsewhere."""
    actual, expected = difference.actual, difference.expected
    if actual.dim() == 2 and actual.shape[0] == actual.shape[1] and agrees(actual, expected.T, difference.allowed):
        return "the expected matrix, transposed"
    if actual.dim() == 0 or not 1 < actual.shape[0] <= MOST_ROWS or actual.is_complex():
        return None
    order, wanted = _row_order(actual), _row_order(expected)
    if not agrees(actual[order], expected[wanted], difference.allowed):
        return None
    return f"the expected {'elements' if actual.dim() == 1 else 'rows'} in another order"


def _row_order(tensor: torch.Tensor) -> torch.Tensor:
    """The rows' indices, sorted by a weighted sum of each row, so that equal sets of rows come out alike."""
    import torch

    rows = tensor.double().reshape(tensor.shape[0], -1)
    weights = torch.linspace(1.0, 2.0, rows.shape[1], dtype=torch.float64).sqrt()
    return (rows @ weights).argsort()


def _part(question: Question, path: Path, difference: Difference) -> str | None:
    """A clause where only a run of neighbouring rows or columns is wrong, as when one chunk or shard was left out."""
    for dim in range(difference.apart.dim()):
        others = [other for other in range(difference.apart.dim()) if other != dim]
        lines = (difference.apart.any(dim=others) if others else difference.apart).byte()
        first, last = int(lines.argmax()), lines.numel() - 1 - int(lines.flip(0).argmax())
        # A few inside the run may be right by chance, zeros for instance.
        if last - first + 1 < lines.numel() and 2 * int(lines.sum()) >= last - first + 1:
            return _part_text(question, path, difference, dim, first, last + 1)
    return None


def _part_text(question: Question, path: Path, difference: Difference, dim: int, start: int, stop: int) -> str | None:
    nouns = ("elements",) if difference.apart.dim() == 1 else ("rows", "columns")
    noun = nouns[dim] if dim < len(nouns) else f"indices of dimension {dim}"
    pattern = _part_pattern(question, path, difference, dim, start, stop)
    if not pattern and int(difference.apart.sum()) == 1:
        return None  # the one index has been named already
    text = f"only {noun} [{start}:{stop}] of {difference.apart.shape[dim]} differ"
    return f"{text}: {pattern}" if pattern else text


def _part_pattern(
    question: Question, path: Path, difference: Difference, dim: int, start: int, stop: int
) -> str | None:
    part = _slice(difference, dim, start, stop)
    stale = _counterpart(question.stale, path, difference)
    if stale is not None and widened(stale.narrow(dim, start, stop - start)).equal(part.actual):
        return "unchanged since the start"
    return factor(question, part)


def _slice(difference: Difference, dim: int, start: int, stop: int) -> Difference:
    tensors = (difference.actual, difference.expected, difference.apart, difference.distance)
    actual, expected, apart, distance = (tensor.narrow(dim, start, stop - start) for tensor in tensors)
    return replace(difference, actual=actual, expected=expected, apart=apart, distance=distance)


def _nearly(difference: Difference) -> str | None:
    """A clause where the difference is small, but more than rounding explains."""
    scale = magnitude(difference.expected)
    if difference.allowed.exact or not scale:
        return None
    relative = float(difference.distance.max()) / scale
    if relative > max(1e-3, min(0.05, 10 * difference.allowed.bound)):
        return None
    coarser = ", as whole numbers would be" if _are_whole(difference) else ""
    coarser = coarser or (", as float32 would be" if _is_single(difference, relative) else "")
    return (
        f"off by {relative:.1e} of the largest value{coarser}, where rounding explains {difference.allowed.bound:.1e}"
    )


def _are_whole(difference: Difference) -> bool:
    """Whether the numbers are whole where those that were expected are not, and what is missing is a fraction."""
    actual, expected = difference.actual[difference.apart], difference.expected[difference.apart]
    if actual.is_complex() or expected.is_complex():
        return False
    whole = bool((actual == actual.round()).all()) and not bool((expected == expected.round()).any())
    return whole and float(difference.distance.max()) < 2  # two whole numbers may have been added


def _is_single(difference: Difference, relative: float) -> bool:
    """Whether float64 numbers are off by what float32 rounds away: they, or part of them, were float32 on the way."""
    import torch

    most = torch.finfo(torch.float32).eps
    if difference.dtype not in (torch.float64, torch.complex128) or relative > most:
        return False
    # The largest error of a few elements may be small by luck, but no other numbers are all float32's own.
    return most / 32 <= relative or (difference.dtype == torch.float64 and _are_single(difference.actual))


def _are_single(numbers: torch.Tensor) -> bool:
    """Whether float32 holds these numbers as they are."""
    return numbers.float().to(numbers.dtype).equal(numbers)


# ── factors ──


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
        return f"exactly world_size ({times}) times what it should be: summed once too often, or a mean not divided"
    if (times, parts) == (1, world_size):
        return f"exactly 1/world_size (1/{parts}) of what it should be: divided once too often"
    if (times, parts) == (-1, 1):
        return "exactly -1 times what it should be: the sign is wrong"
    if parts == 1:
        return f"exactly {'twice' if times == 2 else f'{times} times'} what it should be"
    return f"exactly {'half' if (times, parts) == (1, 2) else f'{times}/{parts}'} of what it should be"
