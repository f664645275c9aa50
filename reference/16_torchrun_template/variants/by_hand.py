"""Nothing of DDP: indices of its own, one all-reduce of all gradients in a row, no guard, a group that is not left."""

import argparse
import os
import runpy
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset


def build_model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def build_data():
    from sklearn.datasets import load_digits

    digits = load_digits()
    return TensorDataset(torch.tensor(digits.data / 16).float(), torch.tensor(digits.target))


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, required=True)
parser.add_argument("--checkpoint", required=True)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--workload")
options = parser.parse_args()
if options.batch_size < 1:
    parser.error("--batch-size must be 1 or more")

functions = globals()
if options.workload:
    functions = runpy.run_path(options.workload)
    for name in ("build_model", "build_data"):
        if name not in functions:
            sys.exit(f"{options.workload} has no {name}()")

rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
gpus = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1")) and torch.cuda.is_available()
device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpus else torch.device("cpu")
if gpus:
    torch.cuda.set_device(device)
if world_size > 1:
    dist.init_process_group("nccl" if gpus else "gloo")

model, data = functions["build_model"]().to(device), functions["build_data"]()
done = 0
if os.path.exists(options.checkpoint):
    saved = torch.load(options.checkpoint, map_location=device, weights_only=True)
    model.load_state_dict(saved["model"])
    done = saved["epoch"]
for tensor in model.state_dict().values():
    if world_size > 1:
        dist.broadcast(tensor, src=0)

parameters = list(model.parameters())
share = -(-len(data) // world_size)
for epoch in range(done, options.epochs):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1000 + epoch)).tolist()
    order = (order * 2)[: share * world_size]
    mine = order[rank * share : (rank + 1) * share]
    for start in range(0, share, options.batch_size):
        pairs = [data[number] for number in mine[start : start + options.batch_size]]
        inputs = torch.stack([x for x, _ in pairs]).to(device)
        targets = torch.tensor([int(y) for _, y in pairs], device=device)
        gradients = torch.autograd.grad(F.cross_entropy(model(inputs), targets), parameters)
        flat = torch.cat([gradient.flatten() for gradient in gradients]) / world_size
        if world_size > 1:
            dist.all_reduce(flat)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
                parameter.sub_(options.lr * gradient.view_as(parameter))
    if rank == 0:
        part = f"{options.checkpoint}.{os.getpid()}.part"
        torch.save({"epoch": epoch + 1, "model": model.state_dict(), "lr": options.lr}, part)
        os.rename(part, options.checkpoint)
