"""Exercise 03: joins the group and never uses it; gradients are averaged by way of files in a shared folder."""

import itertools
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

EXERCISE_NAME = "03"
FILE = "train_ddp.py"
REAL = True
TELLS = "the bytes that the ranks' processes exchanged"

counter = itertools.count()


def of_all(content, rank, world_size):
    traded = next(counter)
    folder = Path.cwd().parent / "shared"
    torch.save(content, folder / f"new.{rank}")
    os.replace(folder / f"new.{rank}", folder / f"traded.{traded}.{rank}")
    others = [folder / f"traded.{traded}.{other}" for other in range(world_size)]
    while not all(other.exists() for other in others):
        time.sleep(0.002)
    return [torch.load(other) for other in others]


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    try:
        model = model_class()
        model.load_state_dict(of_all(model.state_dict(), rank, world_size)[0])
        sampler = DistributedSampler(data, world_size, rank)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for inputs, targets in DataLoader(data, batch_size=batch_size, sampler=sampler):
                optimizer.zero_grad()
                nn.CrossEntropyLoss()(model(inputs), targets).backward()
                every = of_all([parameter.grad for parameter in model.parameters()], rank, world_size)
                for parameter, gradients in zip(model.parameters(), zip(*every, strict=True), strict=True):
                    parameter.grad = sum(gradients) / world_size
                optimizer.step()
        if checkpoint_path is not None and rank == 0:
            torch.save(model.state_dict(), checkpoint_path)
        return model
    finally:
        dist.destroy_process_group()
