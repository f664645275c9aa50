"""As torchtitan does it: parallelize_module over tp, then fully_shard over dp, so that a rank keeps a slice of a slice.
The gradients are averaged by fully_shard's reduce-scatter."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

GROUPS = "_dp_group"


def build_mesh(world_size, tp_size):
    if tp_size < 1 or world_size % tp_size:
        raise ValueError(f"no mesh with tp_size {tp_size} on {world_size} ranks")
    device = "cuda" if torch.cuda.device_count() >= world_size else "cpu"
    return init_device_mesh(device, (world_size // tp_size, tp_size), mesh_dim_names=("dp", "tp"))


def parallelize(model, mesh):
    plan = {
        "up": ColwiseParallel(input_layouts=Replicate(), output_layouts=Shard(-1)),
        "down": RowwiseParallel(input_layouts=Shard(-1), output_layouts=Replicate()),
    }
    parallelize_module(model, mesh["tp"], plan)
    fully_shard(model, mesh=mesh["dp"])
    setattr(model, GROUPS, mesh.get_group("dp"))
    return model


def train_step(model, optimizer, inputs, targets, loss_fn):
    group = getattr(model, GROUPS)
    optimizer.zero_grad()
    samples = torch.tensor([len(inputs)], dtype=torch.float64, device=inputs.device)
    dist.all_reduce(samples, group=group)
    weight = len(inputs) * group.size() / samples.item()
    loss = loss_fn(model(inputs), targets) * weight
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total, op=dist.ReduceOp.SUM, group=group)
    return float(total) / group.size()
