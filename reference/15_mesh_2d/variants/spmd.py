"""One program for all ranks: parameters, inputs and targets are DTensors on the whole mesh, split or replicated in each
dimension, and DTensor finds out what has to be sent where. A gradient is Partial over dp until it is made whole."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor


def build_mesh(world_size, tp_size):
    if tp_size < 1 or world_size % tp_size:
        raise ValueError("tp_size must be a positive divisor of world_size")
    device = "cuda" if torch.cuda.device_count() >= world_size else "cpu"
    return init_device_mesh(device, (world_size // tp_size, tp_size), mesh_dim_names=("dp", "tp"))


SPLIT = {"up.weight": Shard(0), "up.bias": Shard(0), "down.weight": Shard(1)}


def parallelize(model, mesh):
    for name, parameter in list(model.named_parameters()):
        place = [Replicate(), SPLIT.get(name, Replicate())]
        spread = distribute_tensor(parameter.data, mesh, place, src_data_rank=None)
        owner, _, attribute = name.rpartition(".")
        new = nn.Parameter(spread, requires_grad=parameter.requires_grad)
        model.get_submodule(owner).register_parameter(attribute, new)
    return Spmd(model, mesh)


class Spmd(nn.Module):
    def __init__(self, model, mesh):
        super().__init__()
        self.model, self.mesh = model, mesh

    def forward(self, inputs):
        inputs = DTensor.from_local(inputs, self.mesh, [Shard(0), Replicate()], run_check=False)
        outputs = self.model(inputs).redistribute(placements=[Shard(0), Replicate()])
        return outputs.to_local()


def train_step(model, optimizer, inputs, targets, loss_fn):
    group = model.mesh.get_group("dp")
    optimizer.zero_grad()
    sums = torch.tensor([len(inputs), 0.0], dtype=torch.float64, device=inputs.device)
    dist.all_reduce(sums, group=group)
    part = loss_fn(model(inputs), targets) * (len(inputs) / sums[0].item())
    part.backward()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = parameter.grad.redistribute(placements=parameter.placements)
    optimizer.step()
    total = part.detach().clone()
    dist.all_reduce(total, group=group)
    return total.item()
