"""Rank 0 builds the model on its device at once; the others build it on the meta device, and make room for rank 0's
values there."""

import contextlib
import os

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


@contextlib.contextmanager
def joined(rank, size):
    """This rank's device, while it is in the group."""
    gpus = torch.cuda.device_count() >= size
    if gpus:
        torch.cuda.set_device(rank)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"} | os.environ
    where = f"tcp://{place['MASTER_ADDR']}:{place['MASTER_PORT']}"
    dist.init_process_group("nccl" if gpus else "gloo", init_method=where, rank=rank, world_size=size)
    try:
        yield torch.device("cuda", rank) if gpus else torch.device("cpu")
    finally:
        dist.destroy_process_group()


def built(model_class, device, rank):
    with device if rank == 0 else torch.device("meta"):
        model = model_class()
    return model if rank == 0 else model.to_empty(device=device)


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    with joined(rank, world_size) as device:
        model = built(model_class, device, rank)
        train(model, data, epochs, batch_size, lr, device)
        if rank == 0 and checkpoint_path is not None:
            torch.save(model.state_dict(), checkpoint_path)
    return model


def train(model, data, epochs, batch_size, lr, device):
    ddp_model = DistributedDataParallel(model)  # copies rank 0's parameters and buffers into what is empty
    shard = DistributedSampler(data)
    descent = torch.optim.SGD(model.parameters(), lr)
    for epoch in range(epochs):
        shard.set_epoch(epoch)
        for batch in DataLoader(data, batch_size, sampler=shard):
            inputs, targets = (tensor.to(device) for tensor in batch)
            model.zero_grad()
            cross_entropy(ddp_model(inputs), targets).backward()
            descent.step()
