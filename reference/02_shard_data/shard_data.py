"""Deal one shuffled data set to N ranks.

Every rank computes the same permutation of the whole data set by itself, from the seed and the epoch, and takes every
N-th entry of it. No message is needed: the agreement lies in the arithmetic. This is what PyTorch's
`torch.utils.data.distributed.DistributedSampler` does (page "torch.utils.data").
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from itertools import cycle, islice

import torch
from torch.utils.data import Sampler


class ShardedSampler(Sampler[int]):
    """The indices of one rank's share of `dataset`. Nothing here is a collective call."""

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int,
        rank: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if not 0 <= rank < num_replicas:
            raise ValueError(f"rank must be in [0, {num_replicas}) (got {rank})")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the passes that follow. Call it on every rank before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        """How many indices this rank draws: the same number on every rank, so that all take equally many steps."""
        n = len(self.dataset)
        if self.drop_last:
            return n // self.num_replicas
        return (n + self.num_replicas - 1) // self.num_replicas  # rounds up

    def __iter__(self) -> Iterator[int]:
        order = self._permutation()
        total = len(self) * self.num_replicas
        # Past its end the permutation starts anew, as often as it takes: that is the padding. Where `total` is
        # smaller than the data set, the tail is never dealt: that is drop_last.
        return islice(cycle(order), self.rank, total, self.num_replicas)

    def _permutation(self) -> list[int]:
        """The whole data set in this epoch's order: equal on all ranks, because the rank has no part in it."""
        n = len(self.dataset)
        if not self.shuffle:
            return list(range(n))
        # A generator of its own: drawing from the global one would depend on whatever else the program has drawn.
        # Seed and epoch are added as DistributedSampler does, so (seed 0, epoch 1) has the order of (seed 1, epoch 0).
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return torch.randperm(n, generator=generator).tolist()
