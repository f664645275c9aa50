"""No generator at all: the samples are sorted by a digest of (seed, epoch, index), and dealt in blocks from the end."""

from __future__ import annotations

import hashlib
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
        if num_replicas < 1 or not 0 <= rank < num_replicas:
            raise ValueError(f"rank {rank} is outside [0, {num_replicas})")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.place = num_replicas - 1 - rank  # any way of dealing will do: here rank 0 gets the last block
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        extra = 0 if self.drop_last else self.num_replicas - 1
        return (len(self.dataset) + extra) // self.num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        order = sorted(range(n), key=self._digest) if self.shuffle else list(range(n))
        start = self.place * len(self)
        return iter([order[place % n] for place in range(start, start + len(self))])

    def _digest(self, index: int) -> bytes:
        return hashlib.sha256(f"{self.seed}/{self.epoch}/{index}".encode()).digest()
