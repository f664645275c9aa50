"""Shards are sent to rank 0 alone, which puts them together: the other ranks never hold a full tensor. Every rank pads
its rows to the largest shard, for dist.gather wants equal shapes."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


def shard_model(model, mesh, block_class):
    modules = dict(model.named_modules())
    for name in sorted(modules, key=lambda name: -name.count(".") if name else 1):
        if isinstance(modules[name], block_class):
            fully_shard(modules[name], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def save_full_checkpoint(model, path):
    state = {}
    for name, value in model.state_dict().items():
        whole = on_rank_0(value) if isinstance(value, DTensor) else value.cpu()
        if dist.get_rank() == 0:
            state[name] = whole
    if dist.get_rank() == 0:
        torch.save(state, path)
    dist.barrier()


def on_rank_0(value):
    mesh, rows = value.device_mesh, -(-value.shape[0] // value.device_mesh.size())
    group, local = mesh.get_group(), value.to_local().detach()
    padded = local.new_zeros(rows, *value.shape[1:])
    padded[: len(local)] = local
    parts = [torch.empty_like(padded) for _ in range(mesh.size())] if mesh.get_local_rank() == 0 else None
    dist.gather(padded, parts, dst=dist.get_global_rank(group, 0), group=group)
    if parts is not None:
        return torch.cat(parts)[: len(value)].cpu().clone()
    return None
