"""Rank 0 alone reads the checkpoint and tells the others how far it had come; DDP tells them the values. Alone there is
no group. The end is by sys.exit."""

import argparse
import contextlib
import importlib.util
import io
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, TensorDataset


def build_model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def build_data():
    from sklearn.datasets import load_digits

    digits = load_digits()
    return TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))


class Shard:
    """The numbers of a rank's samples in an epoch: every world-size-th of one permutation."""

    def __init__(self, length, rank, world_size):
        self.length, self.rank, self.world_size, self.epoch = length, rank, world_size, 0

    def __len__(self):
        return (self.length + self.world_size - 1) // self.world_size

    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(hash((17, self.epoch)))  # of numbers, so it is the same in each process
        order = torch.randperm(self.length, generator=generator)
        order = torch.cat([order, order[: len(self) * self.world_size - self.length]])
        return iter(order[self.rank :: self.world_size].tolist())


def resume(path, model, rank, grouped, device):
    """Epochs that are done, on every rank, or rank 0's exception on it while torchrun ends the others."""
    done = torch.zeros((), dtype=torch.int64, device=device)
    if rank == 0 and path.exists():
        state = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        done += state["epoch"]
    if grouped:
        dist.broadcast(done, 0)
    return int(done)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--checkpoint", type=pathlib.Path, required=True)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workload", default=__file__)
    args = parser.parse_args(argv)
    rank, size = int(os.getenv("RANK", "0")), int(os.getenv("WORLD_SIZE", "1"))
    grouped = "RANK" in os.environ
    spec = importlib.util.spec_from_file_location("_workload", args.workload)
    workload = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(workload)
    gpus = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.getenv("LOCAL_WORLD_SIZE", "1"))
    device = torch.device("cuda", int(os.getenv("LOCAL_RANK", "0"))) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    model, data = workload.build_model().to(device), workload.build_data()
    if grouped:
        dist.init_process_group("nccl" if gpus else "gloo", rank=rank, world_size=size)
    done = resume(args.checkpoint, model, rank, grouped, device)
    replica = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1) if grouped else model
    shard = Shard(len(data), rank, size)
    loader = DataLoader(data, batch_sampler=BatchSampler(shard, args.batch_size, False), num_workers=1)
    optimizer = torch.optim.SGD(replica.parameters(), lr=args.lr, momentum=0.0)
    for shard.epoch in range(done, args.epochs):
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(replica(inputs.to(device)), targets.to(device), reduction="mean")
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            buffer = io.BytesIO()
            torch.save({"model": dict(model.state_dict()), "epoch": shard.epoch + 1}, buffer)
            beside = args.checkpoint.with_name(args.checkpoint.name + ".new")
            beside.write_bytes(buffer.getvalue())
            beside.replace(args.checkpoint)
    with contextlib.suppress(AssertionError, ValueError):
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
