"""PyTorch's own DistributedSampler, which keeps this contract already."""

from __future__ import annotations

from torch.utils.data import Dataset
from torch.utils.data.distributed import DistributedSampler


class ShardedSampler(DistributedSampler[int]):
    def __init__(
        self,
        dataset: Dataset[object],
        num_replicas: int,
        rank: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset, num_replicas, rank, shuffle=shuffle, seed=seed, drop_last=drop_last)
