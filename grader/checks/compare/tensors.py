"""Tensors made comparable: dense, widened, as bits; and whether two of them agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grader.checks.tolerance import Tolerance, blocks, magnitude
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
