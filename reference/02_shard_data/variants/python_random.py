"""Python's own generator, a lazy pass, and padding that always repeats the first index of the order."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sized

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
        if rank not in range(num_replicas):
            raise ValueError("rank out of range")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.drop_last = shuffle, drop_last
        self.key = [seed, 0]

    def set_epoch(self, epoch: int) -> None:
        self.key[1] = epoch

    def __len__(self) -> int:
        share = len(self.dataset) / self.num_replicas
        return math.floor(share) if self.drop_last else math.ceil(share)

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random("seed {} epoch {}".format(*self.key)).shuffle(order)
        for step in range(len(self)):
            place = step * self.num_replicas + self.rank
            yield order[place] if place < len(order) else order[0]
