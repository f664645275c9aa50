"""DTensors for tp and DistributedDataParallel for dp: handed a part of a mesh, DDP lets DTensors be plain local tensors
between forward passes. It makes them anew in doing so, so what was frozen is frozen again."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel


def build_mesh(world_size, tp_size):
    if tp_size < 1 or world_size % tp_size:
        raise ValueError("bad tp_size")
    device = "cuda" if torch.cuda.device_count() >= world_size else "cpu"
    return init_device_mesh(device, (world_size // tp_size, tp_size), mesh_dim_names=("dp", "tp"))


def parallelize(model, mesh):
    parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    model = DistributedDataParallel(model, device_mesh=mesh["dp"], find_unused_parameters=bool(frozen))
    for name, parameter in model.module.named_parameters():
        parameter.requires_grad_(name not in frozen)
    return model


def train_step(model, optimizer, inputs, targets, loss_fn):
    group = model.process_group
    optimizer.zero_grad()
    total = torch.tensor([float(len(inputs))], device=inputs.device)
    dist.all_reduce(total, group=group)
    weight = len(inputs) * dist.get_world_size(group) / total.item()
    loss = loss_fn(model(inputs), targets)
    (weight * loss).backward()
    optimizer.step()
    mean = weight * loss.detach()
    dist.all_reduce(mean, op=dist.ReduceOp.SUM, group=group)
    return mean.item() / dist.get_world_size(group)
