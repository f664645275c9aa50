"""ZeRO stage 3 by torch's own means: `fully_shard` (FSDP2), and a checkpoint that knows nothing of it.

A unit is what is gathered together: each block one, and the root the rest. fully_shard turns the parameters of a unit
into DTensors, of which a rank holds about 1/N of the rows, and gives the module hooks: all-gather before its forward,
free after it, all-gather again before its backward, reduce-scatter and free after that.

Sources: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (SC 2020), section
5.3 (P_os+g+p); Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel" (VLDB 2023); the PyTorch
pages "torch.distributed.fsdp.fully_shard" and "Distributed Checkpoint".
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


def shard_model(model: nn.Module, mesh: DeviceMesh, block_class: type[nn.Module]) -> nn.Module:
    """Make each block a unit, and all else together another. Every rank of the mesh calls it; nothing is sent.

    With Ψ parameters in L blocks a rank of N keeps Ψ/N of them, and about 2Ψ/L more while it computes. A step gathers
    each block twice and the root once, since the root stays gathered between forward and backward: 2L + 1 all-gathers.
    """
    blocks = [module for module in model.modules() if isinstance(module, block_class)]  # before anything is changed
    for block in blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    # Last, for a unit takes the parameters that no unit below it has taken yet. By default the root is the one unit
    # that is not freed after its forward: backward would begin by gathering it again at once.
    fully_shard(model, mesh=mesh)
    return model


def save_full_checkpoint(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write the bare model's state dict. Collective: every rank calls it with the same path.

    One parameter after the other becomes whole on all ranks, and rank 0 alone keeps it. So the others never hold more
    than one, and rank 0 holds the whole model once, on the CPU.
    """
    writer = dist.get_rank() == 0
    state = {}
    for name, value in model.state_dict().items():  # the bare model's keys, ties and buffers among them
        whole = full(value)
        if writer:
            state[name] = whole
    if writer:
        torch.save(state, path)
    dist.barrier()  # nobody goes on, and maybe reads the file, before it is complete


def full(value: torch.Tensor) -> torch.Tensor:
    """A plain CPU tensor, in a storage of just its size. Collective for what is sharded.

    A DTensor of 19 rows on 2 ranks is gathered as 2 · 10 rows, and its full tensor is a view of the first 19.
    torch.save writes storages, not views, so without the copy the file would hold the padding as well.
    """
    if isinstance(value, DTensor):
        value = value.full_tensor()
    return value.detach().cpu().clone(memory_format=torch.contiguous_format)
