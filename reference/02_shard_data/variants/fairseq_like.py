"""In the manner of fairseq: NumPy's global generator is seeded, used and put back at once, and the indices go through
iterators that shard, group and count."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sized
from contextlib import contextmanager

import numpy as np
from torch.utils.data import Sampler


@contextmanager
def numpy_seed(*numbers: int) -> Iterator[None]:
    """Inside, NumPy's global generator starts from these numbers; afterwards it is where it was."""
    state = np.random.get_state()
    np.random.seed([number % 2**32 for number in numbers])
    try:
        yield
    finally:
        np.random.set_state(state)


class CountingIterator:
    """An iterator that knows how many items it has given and how many there are."""

    def __init__(self, items: Iterator[int], total: int) -> None:
        self.items, self.n, self.total = items, 0, total

    def __iter__(self) -> Iterator[int]:
        for item in self.items:
            if self.n == self.total:
                return
            self.n += 1
            yield item


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
            raise ValueError("shard_id must be between 0 and num_shards")
        self.size, self.num_shards, self.shard_id = len(dataset), num_replicas, rank
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 1  # fairseq counts from 1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        whole, rest = divmod(self.size, self.num_shards)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[int]:
        order = self._ordered_indices()
        own = itertools.islice(order, self.shard_id, None, self.num_shards)
        # Who has one index too few takes the first of the order once more.
        filled = itertools.chain(own, itertools.repeat(order[0] if order else -1))
        return iter(CountingIterator(filled, len(self)))

    def _ordered_indices(self) -> list[int]:
        if not self.shuffle:
            return list(range(self.size))
        with numpy_seed(self.seed, self.epoch):
            return np.random.permutation(self.size).tolist()
