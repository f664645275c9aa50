"""Gradient accumulation with DistributedDataParallel: many micro-batches, one synchronisation, one step.

With n_k samples in micro-batch k of this rank and n samples on all N ranks together, the gradient that we want is
1/n times the sum over all ranks and micro-batches of n_k * grad(L_k), where L_k is a mean over n_k samples. DDP
replaces each rank's gradient by the mean over the ranks, that is 1/N times the sum. So each rank's backward works on
L_k * n_k * N/n: the sum over k is made by accumulation in `.grad`, the sum over the ranks by DDP.

Sources: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training" (VLDB 2020), section
3.2.4 "Gradient Accumulation", and the PyTorch page "DistributedDataParallel", method `no_sync`.
"""

from collections.abc import Callable
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train_step(
    ddp_model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    micro_batches: list[tuple[torch.Tensor, torch.Tensor]],
    loss_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> float:
    """Take one optimizer step on all samples of all ranks and return the mean loss over this rank's samples.

    Collective: every rank calls it, with its own list of (inputs, targets). An empty list raises ValueError.
    """
    if not micro_batches:
        raise ValueError("train_step needs at least one micro-batch, and the list is empty")
    samples = sum(len(targets) for _, targets in micro_batches)
    device = next(ddp_model.parameters()).device
    scale = dist.get_world_size() / samples_of_all_ranks(samples, device)

    optimizer.zero_grad()  # before the step: what an earlier call or anybody else has left in .grad is not ours
    loss_sum, last = 0.0, len(micro_batches) - 1
    for number, (inputs, targets) in enumerate(micro_batches):
        # The forward belongs inside as well: it is there that DDP decides whether this backward will synchronise.
        with nullcontext() if number == last else ddp_model.no_sync():
            loss = loss_fn(ddp_model(inputs), targets) * len(targets)  # the sum over the samples carries its own weight
            (loss * scale).backward()  # adds to .grad and frees this micro-batch's activations
        loss_sum += loss.detach()
    optimizer.step()
    return (loss_sum / samples).item()  # .item() waits for the device, so once, at the end


def samples_of_all_ranks(samples: int, device: torch.device) -> int:
    """The sum of `samples` over the ranks. Collective, 8 bytes."""
    total = torch.tensor(samples).to(device)
    dist.all_reduce(total)
    return int(total)
