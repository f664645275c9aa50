"""torch's own parallelize_module makes DTensors of up and down; the dp ranks' gradients are summed by hand, each rank's
local part, all in one flat message for each dtype."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def build_mesh(world_size, tp_size):
    if tp_size < 1 or world_size % tp_size != 0:
        raise ValueError(f"{world_size} ranks cannot be split into groups of {tp_size}")
    device = "cuda" if torch.cuda.device_count() >= world_size else "cpu"
    return init_device_mesh(device, (world_size // tp_size, tp_size), mesh_dim_names=("dp", "tp"))


def parallelize(model, mesh):
    model = parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    model.dp_mesh = mesh["dp"]
    return model


def train_step(model, optimizer, inputs, targets, loss_fn):
    group = model.dp_mesh.get_group()
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    count = torch.tensor(float(len(inputs)), device=inputs.device)
    sums = torch.stack([loss.detach().double() * count, count.double()])
    dist.all_reduce(sums, group=group)
    (loss * (count / sums[1])).backward()
    synchronize(model, group)
    optimizer.step()
    return (sums[0] / sums[1]).item()


def synchronize(model, group):
    by_dtype = {}
    for parameter in model.parameters():
        if parameter.grad is not None:
            grad = parameter.grad
            local = grad.to_local() if isinstance(grad, DTensor) else grad
            by_dtype.setdefault(local.dtype, []).append(local)
    for grads in by_dtype.values():
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        dist.all_reduce(flat, group=group)
        for grad, part in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
            grad.copy_(part.view_as(grad))
