"""Rank 0 builds the model on its device at once; the others build it on the meta device, and make room for rank 0's
values there."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


def train_ddp(
    rank: int,
    world_size: int,
    model_class: type[nn.Module],
    data: Dataset,
    epochs: int,
    *,
    batch_size: int = 32,
    lr: float = 0.1,
    checkpoint_path: str | os.PathLike | None = None,
) -> nn.Module:
    """Train `model_class()` data-parallel on this rank's shard of `data` and return the trained model itself.

    Collective: every rank of the world calls it, with the same arguments apart from `rank` and `checkpoint_path`.
    """
    # The device rule depends on the machine and the world size, never on the rank, so all ranks decide alike.
    device = torch.device("cuda", rank) if torch.cuda.device_count() >= world_size else torch.device("cpu")
    join_group(rank, world_size, device)
    try:
        if rank == 0:
            with device:
                model = model_class()
        else:
            with torch.device("meta"):
                model = model_class()
            model.to_empty(device=device)
        train_replica(model, rank, world_size, data, epochs, batch_size, lr)
        if checkpoint_path is not None and rank == 0:
            torch.save(model.state_dict(), checkpoint_path)  # the bare model's: no "module." before the keys
        return model
    finally:
        dist.destroy_process_group()  # also when training raises; the exception goes on to the caller


def join_group(rank: int, world_size: int, device: torch.device) -> None:
    """Join the default process group: over NCCL where this rank's device is a GPU, else over gloo (exercise 01)."""
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    backend = "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)  # before joining: NCCL makes its communicator on the current GPU
        backend = "nccl"
    dist.init_process_group(backend, rank=rank, world_size=world_size)


def train_replica(
    model: nn.Module, rank: int, world_size: int, data: Dataset, epochs: int, batch_size: int, lr: float
) -> None:
    """Train `model` in place, in step with the replicas of the other ranks.

    The wrapper is a local variable on purpose: it is gone when this function returns, before the group is left. In
    torch 2.13 a wrapper that outlives its group can hang in its destructor.
    """
    device = next(model.parameters()).device
    # Building the wrapper copies rank 0's parameters and buffers to all ranks. The model itself becomes the replica.
    ddp_model = DistributedDataParallel(model)
    sampler = DistributedSampler(data, world_size, rank)
    loader = DataLoader(data, batch_size=batch_size, sampler=sampler)  # the sampler shuffles; a short last batch stays
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    loss_fn = nn.CrossEntropyLoss()

    for epoch in range(epochs):
        sampler.set_epoch(epoch)  # the epoch is part of the shuffle's seed: without it every epoch has the same order
        for inputs, targets in loader:
            optimizer.zero_grad()
            outputs = ddp_model(inputs.to(device))  # through the wrapper: its forward prepares the averaging
            loss_fn(outputs, targets.to(device)).backward()  # each gradient is averaged as soon as it is there
            optimizer.step()  # equal parameters and equal gradients: the replicas stay equal
