"""The checkpoint by torch.distributed.checkpoint.state_dict, which gives rank 0 all and the others nothing. Its tensors
are views of padded ones where the ranks do not divide the rows, so they are copied."""

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard


def shard_model(model, mesh, block_class):
    for module in list(model.modules()):
        if isinstance(module, block_class):
            fully_shard(module, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def save_full_checkpoint(model, path):
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=options)
    if dist.get_rank() == 0:
        torch.save({name: value.clone() for name, value in state.items()}, path)
    dist.barrier()
