"""In the manner of timm's training script: losses are averaged over the ranks for the log, buffers are made equal after
each epoch, and a saver writes beside the checkpoint's name first."""

import math
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as NativeDDP
from torch.utils.data import DataLoader, Sampler


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n):
        self.sum += value * n
        self.count += n


class ShuffledSampler(Sampler):
    """Every rank's part of the epoch's permutation, which begins anew where it is too short."""

    def __init__(self, dataset, num_replicas, rank):
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, num_replicas, rank, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return math.ceil(len(self.dataset) / self.num_replicas)

    def __iter__(self):
        g = torch.Generator()
        g.manual_seed(self.epoch)
        indices = torch.randperm(len(self.dataset), generator=g)
        total = len(self) * self.num_replicas
        indices = indices.repeat(-(-total // len(indices)))[:total]
        return iter(indices[self.rank :: self.num_replicas].tolist())


class CheckpointSaver:
    def __init__(self, path):
        self.path = Path(path)

    def save(self, model):
        part = self.path.with_suffix(".tmp")
        torch.save(model.state_dict(), part)
        part.replace(self.path)


def reduce_tensor(tensor, world_size):
    rt = tensor.clone()
    dist.all_reduce(rt, op=dist.ReduceOp.SUM)
    return rt / world_size


def distribute_bn(model):
    """Rank 0's buffers on every rank."""
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)


def init_distributed_device(rank, world_size):
    cuda = torch.cuda.device_count() >= world_size
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group(backend="nccl" if cuda else "gloo", rank=rank, world_size=world_size)
    return device


def train_one_epoch(model, loader, optimizer, loss_fn, device, world_size):
    losses_m = AverageMeter()
    model.train()
    for samples, classes in loader:
        inputs, target = samples.to(device), classes.to(device)
        loss = loss_fn(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses_m.update(reduce_tensor(loss.data, world_size).item(), inputs.size(0))
    return losses_m.sum / losses_m.count


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    device = init_distributed_device(rank, world_size)
    try:
        model = model_class().to(device)
        sampler = ShuffledSampler(data, world_size, rank)
        loader = DataLoader(data, batch_size=batch_size, sampler=sampler)
        saver = CheckpointSaver(checkpoint_path) if rank == 0 and checkpoint_path is not None else None
        distribute_bn(model)  # which the wrapper leaves alone
        ddp = NativeDDP(model, broadcast_buffers=False)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=lr, momentum=0.0, weight_decay=0.0, nesterov=False)
        loss_fn = nn.CrossEntropyLoss()
        for epoch in range(epochs):
            loader.sampler.set_epoch(epoch)
            train_one_epoch(ddp, loader, optimizer, loss_fn, device, world_size)
            distribute_bn(model)
        if saver is not None:
            saver.save(model)
        return model
    finally:
        dist.destroy_process_group()
