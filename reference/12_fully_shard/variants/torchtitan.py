"""In the manner of torchtitan's parallelize functions: one dict of options for all units, the root freed after forward
as well, so that a step has one all-gather more. The file is written under another name and renamed."""

import os

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def shard_model(model, mesh, block_class):
    apply_fsdp(model, block_class, mesh, reshard_after_forward_policy="always")
    return model


def apply_fsdp(model, block_class, dp_mesh, reshard_after_forward_policy):
    fsdp_config = {"mesh": dp_mesh, "mp_policy": MixedPrecisionPolicy()}
    reshard_after_forward = {"always": True, "never": False}[reshard_after_forward_policy]
    for _, transformer_block in list(model.named_modules()):
        if isinstance(transformer_block, block_class):
            fully_shard(transformer_block, **fsdp_config, reshard_after_forward=reshard_after_forward)
    fully_shard(model, **fsdp_config, reshard_after_forward=reshard_after_forward)


def save_full_checkpoint(model, path):
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    if dist.get_rank() == 0:
        part = f"{os.fspath(path)}.part"
        torch.save({name: torch.clone(value).cpu() for name, value in state.items()}, part)
        os.replace(part, path)
    dist.barrier()
