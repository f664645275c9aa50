"""All samples are read at the start; the command line is taken apart by hand; gradients are gathered and averaged on
each rank; nobody waits for the interpreter to tidy up."""

import importlib.util
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import TensorDataset

TYPES = {"--epochs": int, "--checkpoint": str, "--lr": float, "--batch-size": int, "--workload": str}


def build_model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def build_data():
    from sklearn.datasets import load_digits

    digits = load_digits()
    return TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))


def parsed(words):
    given = {"--lr": 0.1, "--batch-size": 32, "--workload": None}
    names, values = words[::2], words[1::2]
    if len(names) != len(values) or not set(names) <= TYPES.keys():
        raise SystemExit(f"usage: {sys.argv[0]} " + " ".join(f"{name} X" for name in TYPES))
    for name, value in zip(names, values, strict=True):
        given[name] = TYPES[name](value)
    return given


class Job:
    def __init__(self, given):
        self.given = given
        self.rank, self.size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        source = sys.modules[__name__]
        if given["--workload"]:
            spec = importlib.util.spec_from_file_location("workload", given["--workload"])
            source = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(source)
        self.make, pairs = source.build_model, source.build_data()
        pairs = [pairs[number] for number in range(len(pairs))]
        self.inputs = torch.stack([inputs for inputs, _ in pairs])
        self.targets = torch.stack([torch.as_tensor(target) for _, target in pairs])
        gpus = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpus else torch.device("cpu")
        if gpus:
            torch.cuda.set_device(self.device)
        if self.size > 1:
            backend = "nccl" if gpus else "gloo"
            dist.init_process_group(backend, init_method="env://", rank=self.rank, world_size=self.size)

    def start(self):
        """The model, equal on all ranks, and the epochs that are done."""
        model, epoch = self.make(), 0
        path = self.given["--checkpoint"]
        state = torch.load(path, map_location="cpu", weights_only=True) if os.path.exists(path) else None
        if state is not None:
            model.load_state_dict(state["model"])
            epoch = state["epoch"]
        elif self.size > 1:
            values = [model.state_dict() if self.rank == 0 else None]
            dist.broadcast_object_list(values, src=0)
            model.load_state_dict(values[0])
        return model.to(self.device), epoch

    def batches(self, epoch):
        order = torch.randperm(len(self.targets), generator=torch.Generator().manual_seed(epoch * 7919 + 5))
        share = -(-len(order) // self.size)
        return (
            order.repeat(self.size)[: share * self.size]
            .view(share, self.size)[:, self.rank]
            .split(self.given["--batch-size"])
        )

    def mean(self, gradient):
        if self.size == 1:
            return gradient
        every = [torch.empty_like(gradient) for _ in range(self.size)]
        dist.all_gather(every, gradient)
        return torch.stack(every).mean(0)

    def run(self):
        model, done = self.start()
        for epoch in range(done, self.given["--epochs"]):
            for batch in self.batches(epoch):
                model.zero_grad()
                inputs, targets = self.inputs[batch].to(self.device), self.targets[batch].to(self.device)
                nn.functional.cross_entropy(model(inputs), targets).backward()
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.add_(self.mean(parameter.grad), alpha=-self.given["--lr"])
            if self.rank == 0:
                self.save({"model": model.state_dict(), "epoch": epoch + 1})
        if self.size > 1:
            dist.barrier()

    def save(self, state):
        path = self.given["--checkpoint"]
        if os.path.exists(path + "~"):
            os.remove(path + "~")
        torch.save(state, path + "~")
        os.replace(path + "~", path)


Job(parsed(sys.argv[1:])).run()
sys.stdout.flush()
os._exit(0)
