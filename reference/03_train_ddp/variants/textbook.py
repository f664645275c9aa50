"""The tutorial's way in one function: the wrapper stays alive until after the group is left."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "12355")
    use_cuda = torch.cuda.is_available() and torch.cuda.device_count() >= world_size
    if use_cuda:
        torch.cuda.set_device(rank)
    dist.init_process_group(backend="nccl" if use_cuda else "gloo", rank=rank, world_size=world_size)
    try:
        device = torch.device(f"cuda:{rank}") if use_cuda else torch.device("cpu")
        model = DDP(model_class().to(device), device_ids=[rank] if use_cuda else None)
        sampler = DistributedSampler(data, num_replicas=world_size, rank=rank, shuffle=True, seed=42)
        loader = DataLoader(data, batch_size=batch_size, sampler=sampler)
        criterion = nn.CrossEntropyLoss()
        optimizer = optim.SGD(model.parameters(), lr=lr)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x.to(device)), y.to(device))
                loss.backward()
                optimizer.step()
        dist.barrier()
        if rank == 0 and checkpoint_path is not None:
            torch.save(model.module.state_dict(), checkpoint_path)
        dist.barrier()
        return model.module
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
