"""Two worker processes read the samples, and stay from epoch to epoch."""

import os

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    on_gpu = torch.cuda.device_count() >= world_size
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29517")
    dist.init_process_group("nccl" if on_gpu else "gloo", rank=rank, world_size=world_size)
    try:
        model = model_class().to(device)
        read_and_train(model, data, epochs, batch_size, lr, device)
        if checkpoint_path is not None and rank == 0:
            torch.save(model.state_dict(), checkpoint_path)
        return model
    finally:
        dist.destroy_process_group()


def read_and_train(model, data, epochs, batch_size, lr, device):
    replica, sampler = DistributedDataParallel(model), DistributedSampler(data)
    loader = DataLoader(data, batch_size, sampler=sampler, num_workers=2, persistent_workers=True)
    optimizer = torch.optim.SGD(replica.parameters(), lr)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            cross_entropy(replica(inputs.to(device)), targets.to(device)).backward()
            optimizer.step()
