"""The loss is divided by the world size, so the sum of the gradients is the mean. A batch sampler, an atomic save."""

import copy
import os

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler


class Rank:
    """Joins the group on entering, leaves it on leaving, whatever happened in between."""

    def __init__(self, rank, world_size):
        self.rank, self.world_size = rank, world_size
        gpus = torch.cuda.device_count() >= world_size
        self.device = torch.device(f"cuda:{rank}" if gpus else "cpu")

    def __enter__(self):
        os.environ["RANK"], os.environ["WORLD_SIZE"] = str(self.rank), str(self.world_size)
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", "29500")
        dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
        return self

    def __exit__(self, *_):
        dist.destroy_process_group()


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    with Rank(rank, world_size) as me:
        shapes = model_class()  # a second model, of which only the shapes are of interest
        model = model_class().to(me.device)
        states = [copy.deepcopy(model.state_dict()) if rank == 0 else shapes.state_dict()]
        dist.broadcast_object_list(states, src=0)
        model.load_state_dict(states[0])
        sampler = DistributedSampler(data, world_size, rank, seed=77)
        loader = DataLoader(data, batch_sampler=BatchSampler(sampler, batch_size, drop_last=False))
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            train_epoch(model, loader, me, lr)
            evaluate(model, data, me.device)
        if rank == 0 and checkpoint_path:
            torch.save(model.state_dict(), f"{checkpoint_path}.part")
            os.replace(f"{checkpoint_path}.part", checkpoint_path)
        return model


def train_epoch(model, loader, me, lr):
    model.train()
    for inputs, targets in loader:
        loss = F.cross_entropy(model(inputs.to(me.device)), targets.to(me.device)) / me.world_size
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
            parameter.data.add_(parameter.grad, alpha=-lr)
            parameter.grad = None


def evaluate(model, data, device):
    """Forward passes that train nothing, with and without recording of gradients."""
    model.eval()
    with torch.no_grad():
        model(torch.stack([data[number][0] for number in range(len(data))]).to(device))
    return model(data[0][0].unsqueeze(0).to(device))
