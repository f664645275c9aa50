"""Exercise 15: tensor parallel inside "tp", data parallel across "dp". Read README.md first."""

from collections.abc import Callable

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh


def build_mesh(world_size: int, tp_size: int) -> DeviceMesh:
    """Arrange all ranks in a grid of two dimensions. Collective: every rank calls it; the process group is up.

    Args:
        world_size: the number of all ranks.
        tp_size: how many ranks share one copy of the model.

    Returns:
        A mesh with the dimensions "dp", of world_size / tp_size ranks, and "tp", of tp_size ranks. The ranks of a tp
        group are neighbours; those of a dp group lie tp_size apart. Its device type is "cuda" where every rank can have
        a GPU of its own, and "cpu" elsewhere.

    Raises:
        ValueError: on every rank, where tp_size is below 1 or does not divide world_size.
    """
    # TODO 1: refuse what makes no grid.
    # TODO 2: which dimension has to come last, so that its ranks are neighbours?
    raise NotImplementedError("build_mesh is yours to write")


def parallelize(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Split `model.up` by columns and `model.down` by rows over the tp group. Every rank calls it.

    Args:
        model: on this rank's device, with equal values on all ranks. `up` and `down` are nn.Linear, with or without a
            bias; what is between them works element by element and has no parameters of its own. The size of "tp"
            divides the width of `up`. There may be other layers.
        mesh: as build_mesh gives it.

    Returns:
        A module whose outputs are those of `model`. Of `up` and `down` it keeps this rank's slices only. The optimizer
        is built from its parameters afterwards.
    """
    # TODO 3: which rows of up.weight, which columns of down.weight, and what of the biases is this rank's?
    # TODO 4: where has something to be summed over the tp group: in forward, and in backward?
    # TODO 5: train_step will need the dp group. How does it get there?
    raise NotImplementedError("parallelize is yours to write")


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    loss_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> float:
    """Take one optimizer step on the union of the dp batches. Collective: every rank calls it.

    Args:
        model: what parallelize returned.
        optimizer: an optimizer of its parameters.
        inputs, targets: this rank's batch, with its samples along the first dimension. All ranks of one tp group pass
            the same; the ranks of a dp group pass batches of their own, which may differ in size.
        loss_fn: `loss_fn(outputs, targets)` is the mean loss over the samples, a tensor without dimensions.

    Returns:
        The mean loss over the samples of all dp batches, a Python float, the same on every rank, with the parameters
        as they were before the step.
    """
    # TODO 6: how many samples have all dp batches together, and how much does this one count?
    # TODO 7: which gradients have to be averaged, and over which group? Which of them are complete already?
    raise NotImplementedError("train_step is yours to write")
