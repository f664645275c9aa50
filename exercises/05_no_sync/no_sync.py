"""Exercise 05: gradient accumulation that synchronises once. Read README.md first."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train_step(
    ddp_model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    micro_batches: list[tuple[torch.Tensor, torch.Tensor]],
    loss_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> float:
    """Take one optimizer step on all samples of all ranks. Collective: every rank calls it, with its own micro-batches.

    Args:
        ddp_model: the model, wrapped in DistributedDataParallel; the process group is up.
        optimizer: the optimizer of its parameters. Gradients from earlier calls may still be there.
        micro_batches: this rank's pairs (inputs, targets) on the model's device, each with its samples along the first
            dimension. Micro-batches may differ in size; other ranks may have more or fewer of them, and of samples.
        loss_fn: `loss_fn(outputs, targets)` is the mean loss over the samples of a micro-batch, a tensor without
            dimensions.

    Returns:
        The mean loss over this rank's samples, a Python float, with the parameters as they were before the step.

    Raises:
        ValueError: `micro_batches` is empty.
    """
    # TODO 1: refuse an empty list.
    # TODO 2: how many samples have all ranks together? One small collective tells.
    # TODO 3: clear the gradients, then run forward and backward for one micro-batch after the other.
    #         How much does each one's mean loss count, given that DDP takes the mean over the ranks?
    # TODO 4: let DDP synchronise in the last backward only.
    # TODO 5: step once, and return the mean loss over this rank's samples.
    raise NotImplementedError("train_step is yours to write")
