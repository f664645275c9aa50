"""In the manner of accelerate: a seedable sampler over the whole data set, batched, and each rank keeps its part of
every batch (split_batches) with the short last one filled from the beginning (even_batches). torch's global generator
is seeded, used and put back at once."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import torch
from torch.utils.data import BatchSampler, Sampler


class SeedableRandomSampler(Sampler[int]):
    """The epoch's permutation of a data set, or its own order."""

    def __init__(self, dataset: Sized, shuffle: bool, seed: int) -> None:
        self.dataset, self.shuffle, self.initial_seed, self.epoch = dataset, shuffle, seed, 0

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[int]:
        if not self.shuffle:
            return iter(range(len(self)))
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.initial_seed + self.epoch)
            return iter(torch.randperm(len(self)).tolist())


class BatchSamplerShard(BatchSampler):
    """One process's part of every batch of a batch sampler, whose batches are one for each process together."""

    def __init__(self, batch_sampler: BatchSampler, num_processes: int, process_index: int) -> None:
        self.batch_sampler, self.num_processes, self.process_index = batch_sampler, num_processes, process_index

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[list[int]]:
        length = self.batch_sampler.batch_size // self.num_processes
        part = slice(length * self.process_index, length * (self.process_index + 1))
        first: list[int] = []
        for batch in self.batch_sampler:
            first = first or batch
            even = list(batch)
            while len(even) < self.batch_sampler.batch_size:  # even_batches
                even += first
            yield even[part]


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
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"process_index {rank} of {num_replicas}")
        self.sampler = SeedableRandomSampler(dataset, shuffle, seed)
        batches = BatchSampler(self.sampler, batch_size=num_replicas, drop_last=drop_last)
        self.batches = BatchSamplerShard(batches, num_replicas, rank)

    def set_epoch(self, epoch: int) -> None:
        self.sampler.epoch = epoch

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[int]:
        return (index for batch in self.batches for index in batch)
