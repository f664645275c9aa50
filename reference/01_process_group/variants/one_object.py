"""Right: keeps what belongs to the group in one object, and tells the backend by both of its devices."""

import os
from contextlib import ExitStack

import torch
import torch.distributed as dist

_open = ExitStack()


def _backend(world_size: int) -> str:
    offers = {"cpu": dist.Backend.GLOO}
    if dist.is_nccl_available() and torch.cuda.device_count() >= world_size:
        offers["cuda"] = dist.Backend.NCCL
    return ",".join(f"{device}:{backend}" for device, backend in offers.items())


def setup_ddp(rank: int, world_size: int) -> None:
    if min(world_size - 1, rank, world_size - 1 - rank) < 0:
        raise ValueError(f"no such place: rank {rank} of {world_size}")
    for name, default in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29400")):
        if name not in os.environ:
            os.environ[name] = default
    backend = _backend(world_size)
    if "cuda" in backend:
        torch.cuda.set_device(f"cuda:{rank}")
    elif torch.cuda.is_available():
        torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group(backend=backend, init_method="env://", world_size=world_size, rank=rank)
    _open.callback(_leave)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def cleanup_ddp() -> None:
    _open.close()
    _leave()  # a group that somebody else has made
