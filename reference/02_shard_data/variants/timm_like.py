"""In the manner of timm: one class that keeps the order and one that repeats samples, here once each, and a sampler
that chooses between them when it is built."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

import torch
from torch.utils.data import Sampler


class OrderedDistributedSampler(Sampler[int]):
    """The data set's own order, extended by its head, every num_replicas-th index to the same rank."""

    def __init__(self, dataset: Sized, num_replicas: int, rank: int, drop_last: bool) -> None:
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        rounded = math.floor if drop_last else math.ceil
        self.num_samples = rounded(len(dataset) * 1.0 / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def indices(self) -> list[int]:
        return list(range(len(self.dataset)))

    def __iter__(self) -> Iterator[int]:
        indices = self.indices()
        while 0 < len(indices) < self.total_size:
            indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples


class RepeatAugSampler(OrderedDistributedSampler):
    """The epoch's permutation, each index `num_repeats` times."""

    seed, epoch, num_repeats = 0, 0, 1

    def indices(self) -> list[int]:
        g = torch.Generator()
        g.manual_seed(1_000_003 * self.seed + self.epoch)
        shuffled = torch.randperm(len(self.dataset), generator=g)
        return torch.repeat_interleave(shuffled, repeats=self.num_repeats, dim=0).tolist()


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
        if not (0 <= rank <= num_replicas - 1):
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        chosen = RepeatAugSampler if shuffle else OrderedDistributedSampler
        self.inner = chosen(dataset, num_replicas, rank, drop_last)
        self.inner.seed = seed

    def set_epoch(self, epoch: int) -> None:
        self.inner.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(self.inner)

    def __len__(self) -> int:
        return len(self.inner)
