"""Many values for little, and few of many: what is trained where memory is measured, and what a rank is asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from grader.kit import values

DRAWN = 2**17
"""How many values are drawn at once: more than any size that is asked for."""
PLACES = 2
"""Of how many elements of each tensor a rank is asked for the values, where nothing else is said."""


def drawn(sizes: Iterable[int], seed: int, *place: int | str) -> Iterator[torch.Tensor]:
    """So many float32 values for each size. They are parts of one draw, which takes far less time than one for each."""
    every = values.normal((DRAWN,), seed, *place, dtype=torch.float32)
    begins = values.random_for(seed, *place, "begins")
    for size in sizes:
        begin = begins.randrange(DRAWN - size)
        yield every[begin : begin + size]


def places(secret: int, place: str, sizes: Iterable[int], count: int = PLACES) -> list[torch.Tensor]:
    """At which places of each tensor a rank is asked for the values, where they have so many elements."""
    draw = values.random_for(secret, "places", place)
    return [torch.tensor([draw.randrange(size) for _ in range(count)]) for size in sizes]


def sample(secret: int, place: str, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The values at these places, on the CPU, one tensor after the other."""
    chosen = places(secret, place, [tensor.numel() for tensor in tensors])
    found = [tensor.detach().take(where.to(tensor.device)) for tensor, where in zip(tensors, chosen, strict=True)]
    return torch.cat([one.cpu() for one in found])
