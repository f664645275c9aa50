"""Process groups by the device rule: a default group for some of the ranks, DDP around a model, what a rank sees."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

INTERNET = (socket.AF_INET, socket.AF_INET6)


def join(rank: Any, name: str, members: Sequence[int]) -> None:
    """Join a default group of `members` alone. A collective call of theirs; each name once."""
    backend = "cpu:gloo,cuda:nccl" if rank.device.type == "cuda" else "gloo"
    store = dist.FileStore(str(rank.shared / f"group-{name}"), len(members))  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=store, rank=members.index(rank.rank), world_size=len(members))


def wrapped(rank: Any, model: torch.nn.Module, **options: Any) -> DistributedDataParallel:
    """The model in DDP. A collective call of the default group."""
    ids = [rank.device.index] if rank.device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=ids, **options)


def share_state(model: torch.nn.Module) -> None:
    """Give all ranks of the default group the values that the model has on its rank 0. A collective call."""
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)


def average_gradients(model: torch.nn.Module) -> None:
    """Replace each gradient by its mean over the default group. A collective call."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


@contextmanager
def alone() -> Iterator[None]:
    """A default group of this process alone, as rank 0 of 1."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        dist.destroy_process_group()


def all_agree(vote: object) -> bool:
    """Whether every rank of the default group votes for it. A collective call."""
    votes = torch.tensor(float(bool(vote)))
    dist.all_reduce(votes, dist.ReduceOp.MIN)
    return bool(votes)


def hang_up() -> None:
    """End all connections of this process, as the system does when a process ends: whoever waits for it hears of it at
    once, whatever still holds the group here."""
    for number in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # it is closed already, or not connected
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                _end_connection(number)


def _end_connection(descriptor: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.family in INTERNET and connection.getpeername():
            connection.shutdown(socket.SHUT_RDWR)


def default_group() -> dict[str, Any] | None:
    """The default group as this rank sees it, or None. `meeting` is None where its store tells no address and port."""
    if not dist.is_initialized():
        return None
    store: Any = dist.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    meeting = f"{store.host}:{store.port}" if hasattr(store, "port") else None
    return {"rank": dist.get_rank(), "world_size": dist.get_world_size(), "meeting": meeting}
