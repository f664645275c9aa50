"""Units in post-order, explicit prefetch in forward and backward, and a checkpoint from named parameters and buffers:
ties are found again by the names that named_parameters() gives without removing duplicates."""

import itertools

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate


def shard_model(model, mesh, block_class):
    blocks = [module for module in model.modules() if isinstance(module, block_class)]
    for block in reversed(blocks):
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    for earlier, later in itertools.pairwise(blocks):
        earlier.set_modules_to_forward_prefetch([later])
        later.set_modules_to_backward_prefetch([earlier])
    return model


def save_full_checkpoint(model, path):
    names = list(model.state_dict())  # frees what an evaluation has left gathered, so it comes before the parameters
    tensors = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    state = {name: replicated(tensors[name]) for name in names}
    if dist.get_rank() == 0:
        with open(path, "wb") as file:
            torch.save(state, file)
    dist.all_reduce(torch.zeros(1))


def replicated(tensor):
    if isinstance(tensor, DTensor):
        tensor = tensor.redistribute(placements=[Replicate()] * tensor.device_mesh.ndim).to_local()
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())
