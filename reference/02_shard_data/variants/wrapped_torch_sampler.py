"""Holds a DistributedSampler instead of being one, and takes its options by keyword only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DistributedSampler, Sampler


class ShardedSampler(Sampler[int]):
    def __init__(self, dataset: Any, num_replicas: int, rank: int, *flags: Any, **options: Any) -> None:
        names = ("shuffle", "seed", "drop_last")
        options.update(zip(names, flags, strict=False))
        self._inner: DistributedSampler[Any] = DistributedSampler(
            dataset, num_replicas=num_replicas, rank=rank, **options
        )

    def set_epoch(self, epoch: int) -> None:
        self._inner.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[int]:
        yield from self._inner
