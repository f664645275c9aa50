"""Module.apply visits children before parents, which is the order that fully_shard wants. The checkpoint gathers one
unit in place at a time, copies what it needs of it, and frees it again."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule, fully_shard


def shard_model(model, mesh, block_class):
    def shard(module):
        if module is model or isinstance(module, block_class):
            fully_shard(module, mesh=mesh)

    return model.apply(shard)


def save_full_checkpoint(model, path):
    state = model.state_dict()
    whole = {}
    units = [(prefix, module) for prefix, module in model.named_modules() if isinstance(module, FSDPModule)]
    for prefix, unit in reversed(units):
        unit.unshard()
        for name, parameter in unit.named_parameters(prefix=prefix, remove_duplicate=False):
            if type(parameter) is torch.nn.Parameter:
                whole[name] = parameter.detach().cpu().clone()
        unit.reshard()
    if dist.get_rank() == 0:
        torch.save({name: whole[name] if name in whole else state[name].cpu() for name in state}, path)
    dist.barrier()
