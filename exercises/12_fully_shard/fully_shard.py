"""Exercise 12: shard a model with torch's own fully_shard, and save all of it. Read README.md first."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh


def shard_model(model: nn.Module, mesh: DeviceMesh, block_class: type[nn.Module]) -> nn.Module:
    """Shard the parameters of `model` over the ranks of `mesh`. Every rank calls it.

    Args:
        model: on this rank's device, with equal values on all ranks of the mesh. Blocks do not lie inside one another.
        mesh: one dimension; its ranks need not be all ranks.
        block_class: each submodule of this class, wherever it stands, is one unit. All else together is another.

    Returns:
        The model. For more than one rank a training step costs between 2·blocks+1 and 2·blocks+2 all-gathers and
        blocks+1 reduce-scatters, and blocks do not stay gathered after forward. Gradients are averaged.
    """
    # TODO 1: which modules are units, and in which order must they be handed to fully_shard?
    # TODO 2: what becomes of a unit's parameters between forward and backward? Look at the defaults.
    raise NotImplementedError("shard_model is yours to write")


def save_full_checkpoint(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Save the state dict that the bare model would have. Collective: every rank calls it with the same path.

    Args:
        model: what shard_model returned, at any moment between two forward and backward passes.
        path: the file. What is there already is replaced.

    The file holds the state dict itself: the bare model's keys, plain CPU tensors in the model's dtype, buffers
    included, each with a storage of its own size. Rank 0 alone writes. When the call returns on any rank, the file is
    complete.
    """
    # TODO 3: who has to take part in making full tensors, and who keeps them?
    # TODO 4: is every full tensor as large as what lies behind it?
    # TODO 5: when may a rank return?
    raise NotImplementedError("save_full_checkpoint is yours to write")
