"""Functional collectives, a model that only rank 0 builds, and a shuffle whose seed rank 0 draws anew in every call."""

import os
import random

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import nn
from torch.utils.data import DataLoader, Subset


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    gpus = torch.cuda.device_count() >= world_size
    device = torch.device("cuda", rank) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    os.environ.update({"MASTER_ADDR": "localhost", "MASTER_PORT": "29511"} | dict(os.environ))
    dist.init_process_group("nccl" if gpus else "gloo", "env://", rank=rank, world_size=world_size)
    try:
        package = [model_class() if rank == 0 else None, random.getrandbits(32)]
        dist.broadcast_object_list(package, src=0)
        model, seed = package[0].to(device), package[1]
        optimizer = torch.optim.SGD(model.parameters(), lr)
        for epoch in range(epochs):
            order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed + epoch)).tolist()
            shard = dealt(order, world_size)[rank]
            for inputs, targets in DataLoader(Subset(data, shard), batch_size):
                nn.CrossEntropyLoss()(model(inputs.to(device)), targets.to(device)).backward()
                for parameter in model.parameters():
                    total = collectives.all_reduce(parameter.grad, "sum", dist.group.WORLD)
                    parameter.grad = collectives.wait_tensor(total) / world_size
                optimizer.step()
                optimizer.zero_grad()
        if checkpoint_path is not None and rank == 0:
            torch.save(model.state_dict(), checkpoint_path)
    finally:
        dist.destroy_process_group()
    return model


def dealt(order, world_size):
    """The order as a pack of cards, dealt to the ranks; who gets fewer takes cards from the top of the pack again."""
    shards = [order[rank::world_size] for rank in range(world_size)]
    share = len(shards[0])
    return [shard + (order * share)[: share - len(shard)] for shard in shards]
