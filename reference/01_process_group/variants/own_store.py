"""Right: builds the TCPStore itself, binds the group to its GPU by device_id, and warms it up with one all-reduce."""

from datetime import timedelta
from os import environ

from torch import device, ones
from torch.cuda import device_count, is_available
from torch.distributed import TCPStore, all_reduce, destroy_process_group, init_process_group, is_initialized

TIMEOUT = timedelta(minutes=10)


def _device(rank: int, world_size: int) -> device:
    if is_available() and device_count() >= world_size:
        return device(f"cuda:{rank}")
    return device("cpu")


def _store(rank: int, world_size: int) -> TCPStore:
    host, port = environ.get("MASTER_ADDR") or "localhost", int(environ.get("MASTER_PORT") or "23456")
    return TCPStore(host, port, world_size, rank == 0, TIMEOUT)


def setup_ddp(rank: int, world_size: int) -> None:
    if rank not in range(world_size):
        raise ValueError(f"there is no rank {rank} in a world of {world_size}")
    mine = _device(rank, world_size)
    init_process_group(
        "nccl" if mine.type == "cuda" else "gloo",
        store=_store(rank, world_size),
        rank=rank,
        world_size=world_size,
        device_id=mine if mine.type == "cuda" else None,
    )
    hello = ones(1, device=mine)
    all_reduce(hello)


def cleanup_ddp() -> None:
    if is_initialized():
        destroy_process_group()
