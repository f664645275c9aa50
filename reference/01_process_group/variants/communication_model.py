"""Right: one object knows how the ranks communicate, as in ignite: it binds the device, counts the ranks of a node by
an all-reduce over gloo, and leaves the environment as it found it."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist


class NativeModel:
    def __init__(self, rank: int, world_size: int) -> None:
        place = os.environ.get("MASTER_ADDR", "localhost"), os.environ.get("MASTER_PORT", "15000")
        self.device = self.device_of(rank, world_size)
        backend = "gloo" if self.device.type == "cpu" else "nccl"
        method, patience = "tcp://{}:{}".format(*place), timedelta(minutes=10)
        dist.init_process_group(backend, init_method=method, timeout=patience, rank=rank, world_size=world_size)
        dist.barrier()
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.ranks_of_the_node = self.count(rank)

    @staticmethod
    def device_of(rank: int, world_size: int) -> torch.device:
        if torch.cuda.is_available() and torch.cuda.device_count() >= world_size:
            return torch.device(f"cuda:{rank}")
        return torch.device("cpu")

    @staticmethod
    def count(local_rank: int) -> int:
        group = dist.new_group(backend="gloo")
        number = torch.tensor([local_rank + 1])
        dist.all_reduce(number, op=dist.ReduceOp.MAX, group=group)
        dist.destroy_process_group(group)
        return int(number.item())


models: list[NativeModel] = []


def setup_ddp(rank: int, world_size: int) -> None:
    if world_size <= 0:
        raise ValueError("world_size should be positive")
    if rank >= world_size or rank < 0:
        raise ValueError("rank should be between 0 and world_size - 1")
    models[:] = [NativeModel(rank, world_size)]


def cleanup_ddp() -> None:
    models.clear()
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
