"""Launcher or not, the group is joined by the environment: what no launcher has set gets a default, a port included. A
temporary file with a name of its own, and a workload that is run as a program would be. Told to leave by SIGTERM, it
does so once the epoch is saved."""

import argparse
import os
import pathlib
import runpy
import signal
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

DEFAULTS = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


def build_model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def build_data():
    from sklearn.datasets import load_digits

    digits = load_digits()
    return TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))


TOLD = []


def save(path, state):
    with tempfile.NamedTemporaryFile(dir=path.resolve().parent, prefix=path.name, delete=False) as file:
        torch.save(state, file)
    pathlib.Path(file.name).replace(path)


def train(options, device):
    here = runpy.run_path(options.workload) if options.workload else globals()
    model, data, done = here["build_model"]().to(device), here["build_data"](), 0
    if os.path.lexists(options.checkpoint):
        state = torch.load(options.checkpoint, map_location=device, weights_only=True)
        done = state["epoch"]
        model.load_state_dict(state["model"])
    replica = DistributedDataParallel(model)
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, options.batch_size, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), options.lr)
    for epoch in range(done, options.epochs):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(replica(inputs.to(device)), targets.to(device))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if dist.get_rank() == 0:
            save(options.checkpoint, {"model": model.state_dict(), "epoch": epoch + 1})
        if TOLD:
            sys.exit(143)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--checkpoint", type=pathlib.Path, required=True)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workload")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: TOLD.append(True))
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    gpus = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpus else "gloo")
    train(options, device)
    dist.destroy_process_group()


main()
