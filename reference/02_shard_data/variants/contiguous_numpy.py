"""Contiguous shards of a NumPy permutation; a short shard is padded with indices of its own where it has any."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import numpy as np
from torch.utils.data import Sampler


class ShardedSampler(Sampler[int]):
    def __init__(
        self,
        dataset: Sized,
        num_replicas: int,
        rank: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if rank < 0 or rank >= num_replicas:
            raise ValueError(f"no rank {rank} among {num_replicas}")
        self.n, self.parts, self.part = len(dataset), num_replicas, rank
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Computes the shard at once; a pass only reads it."""
        order = np.arange(self.n)
        if self.shuffle:
            order = np.random.default_rng([self.seed, epoch]).permutation(self.n)
        if self.drop_last:
            order = order[: self.n - self.n % self.parts]
        shard = np.array_split(order, self.parts)[self.part]
        if len(order) and not self.drop_last:
            source = shard if len(shard) else order
            shard = np.resize(np.concatenate([shard, source]), -(-self.n // self.parts))
        self.shard: list[int] = shard.tolist()

    def __len__(self) -> int:
        return len(self.shard)

    def __iter__(self) -> Iterator[int]:
        return iter(self.shard)
