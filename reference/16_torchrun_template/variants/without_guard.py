"""DDP in a main that is called without a guard. Alone it finds a port of its own, and it saves through a temporary file
with a name of the system's choice."""

import argparse
import os
import socket
import tempfile
from importlib.machinery import SourceFileLoader

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def build_model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def build_data():
    from sklearn import datasets

    inputs, targets = datasets.load_digits(return_X_y=True)
    return TensorDataset(torch.as_tensor(inputs).float().div(16), torch.as_tensor(targets))


def free_port():
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return str(found.getsockname()[1])


def set_up():
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost"}.items():
        os.environ.setdefault(name, value)
    if "MASTER_PORT" not in os.environ:
        os.environ["MASTER_PORT"] = free_port()
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if gpu else "gloo", init_method="env://")
    return torch.device("cuda") if gpu else torch.device("cpu")


def save(state, path):
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def main():
    parser = argparse.ArgumentParser()
    for name, options in {
        "--epochs": {"type": int, "required": True},
        "--checkpoint": {"required": True},
        "--lr": {"type": float, "default": 0.1},
        "--batch-size": {"type": int, "default": 32},
        "--workload": {},
    }.items():
        parser.add_argument(name, **options)
    args = parser.parse_args()
    work = SourceFileLoader("its_workload", args.workload).load_module() if args.workload else None
    make_model = work.build_model if work else build_model
    make_data = work.build_data if work else build_data

    device = set_up()
    model = make_model().to(device)
    epoch = 0
    if os.path.lexists(args.checkpoint):
        checkpoint = torch.load(args.checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(checkpoint["model"])
        epoch = int(checkpoint["epoch"])
    data = make_data()
    model = DDP(model)
    sampler = DistributedSampler(data, seed=7)
    loader = DataLoader(data, args.batch_size, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), args.lr)
    while epoch < args.epochs:
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        epoch += 1
        if dist.get_rank() == 0:
            save({"model": model.module.state_dict(), "epoch": torch.tensor(epoch)}, args.checkpoint)
            print(f"epoch {epoch}: loss {loss.item():.3f}")
        dist.barrier()
    dist.destroy_process_group()


main()
