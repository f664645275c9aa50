"""grader.kit.samples: what a rank draws and is asked for, the judge has as well."""

from __future__ import annotations

import torch

from grader.kit import samples

SIZES = [5, 120, 70_000]


def test_what_is_drawn_is_the_places_own() -> None:
    """The same for the same place, of the sizes that were asked for, and another for another."""
    one, again = ([*samples.drawn(SIZES, 7, "here", 1)] for _ in range(2))
    assert [len(part) for part in one] == SIZES and {part.dtype for part in one} == {torch.float32}
    assert all(map(torch.equal, one, again))
    assert not torch.equal(one[2], [*samples.drawn(SIZES, 7, "here", 2)][2])


def test_a_sample_has_the_values_at_the_places() -> None:
    """Of whatever shape the tensors have; other secrets have other places."""
    tensors = [torch.arange(size, dtype=torch.float32).view(-1, 5) for size in SIZES]
    chosen = samples.places(3, "here", SIZES)
    assert torch.equal(samples.sample(3, "here", tensors), torch.cat(chosen).float())
    assert not torch.equal(chosen[2], samples.places(4, "here", SIZES)[2])
    assert [len(where) for where in samples.places(3, "here", SIZES, count=8)] == [8] * 3
