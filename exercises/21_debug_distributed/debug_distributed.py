"""Exercise 21: eight programs that run and are wrong, and a tool that finds who is. Read README.md first.

Each docstring says what its function must do; mend the code until it does, in whichever way. The process group is up.
A `group` is that of the ranks which call the function; where it is None, all ranks do. Models are bare modules with the
same parameters on all ranks, but for `ddp_model`, which is wrapped already; models, batches and tensors are on this
rank's device, data sets on the CPU. A loss function gives the mean over the samples of a batch.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

Batches = list[tuple[torch.Tensor, torch.Tensor]]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Dumps = dict[int, list[dict[str, Any]]]


def mean_loss(loss: torch.Tensor, group: dist.ProcessGroup | None = None) -> float:
    """The mean of the losses of all ranks of the group, on each of them, whatever their values are: where one is NaN,
    so is the mean. `loss` has one element, and its dtype, which holds their sum, is the same on all ranks; it may be
    part of a graph, and is left as it is. Collective."""
    mean = loss.detach().clone()
    if dist.get_rank(group) == 0:  # it is the one that writes the log
        dist.all_reduce(mean, group=group)
        mean /= dist.get_world_size(group)
    return mean.item()


def exchange(
    first: torch.Tensor, second: torch.Tensor, group: dist.ProcessGroup | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """On each rank of the group the sum of all ranks' `first`, and all ranks' `second` in the order of their ranks in
    the group, of shape (ranks, *second.shape). Either may be of any shape, strides and dtype (`first`: floating or
    int64); shapes and dtypes are the same on all ranks. What is returned needs no gradient, and the arguments are left
    as they are. Collective."""
    total = first.detach().clone(memory_format=torch.contiguous_format)
    own = second.detach().contiguous()
    gathered = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    if dist.get_rank(group) % 2 == 0:  # some ranks send the one and some the other, so that the network is never idle
        dist.all_reduce(total, group=group)
        dist.all_gather(gathered, own, group=group)
    else:
        dist.all_gather(gathered, own, group=group)
        dist.all_reduce(total, group=group)
    return total, torch.stack(gathered)


def pass_around(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """On rank r of the group a tensor with the elements of rank r - 1's, and on rank 0 with those of the last; one rank
    alone gets its own. It is a new tensor that needs no gradient, and the argument is left as it is. The shape, which
    is any, and the dtype are the same on all ranks; strides may be any. Collective."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    own = tensor.detach().contiguous()
    if ranks == 1:
        return own.clone()
    received = torch.empty_like(own)
    dist.send(own, group_dst=(rank + 1) % ranks, group=group)
    dist.recv(received, group_src=(rank - 1) % ranks, group=group)
    return received


def broadcast_in_group(tensor: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Give all ranks of the group, in place, the elements that the tensor has on the first of them, which is the one of
    rank 0 in the group. It may be of any shape, strides and dtype, and may require a gradient; shape and dtype are the
    same on all ranks. Collective."""
    elements = tensor.detach().contiguous()
    dist.broadcast(elements, src=0, group=group)
    tensor.detach().copy_(elements)


def train_epochs(
    ddp_model: DistributedDataParallel,
    dataset: Dataset[Any],
    epochs: int,
    batch_size: int,
    optimizer: torch.optim.Optimizer,
    loss_fn: Loss,
) -> None:
    """Train on all of `dataset`, pairs (inputs, targets) that are the same on all ranks, `epochs` times.

    In every epoch each rank gets as many samples as the others. Together they have all samples, and as few twice as
    that makes necessary. Which samples a rank gets, and in which order, is drawn anew for every epoch. It takes a step
    with each `batch_size` of them, the last step of an epoch perhaps with fewer, by the mean of all ranks' gradients.
    Collective."""
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
    device = next(ddp_model.parameters()).device
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_fn(ddp_model(inputs.to(device)), targets.to(device)).backward()
            optimizer.step()


def train_branches(model: nn.Module, batches: Batches, optimizer: torch.optim.Optimizer, loss_fn: Loss) -> None:
    """One step for each of this rank's batches, of which every rank has equally many, by the mean of all ranks'
    gradients.

    The model looks at its inputs and decides by them which of its parameters it uses, perhaps others on other ranks.
    Where a rank does not use a parameter, its gradient of it counts as zero in the mean. What no rank uses in a step
    has then a gradient of zero, or none. Collective, in the default group."""
    ddp_model = DistributedDataParallel(model)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(ddp_model(inputs), targets).backward()
        optimizer.step()


def train_uneven(model: nn.Module, batches: Batches, optimizer: torch.optim.Optimizer, loss_fn: Loss) -> None:
    """One step for each of this rank's batches, of which ranks may have different numbers, or none.

    There are as many steps as the longest list has batches. The gradient of a step is the mean over the ranks that
    still have a batch in it, and the others do not count. Afterwards every rank has the parameters of the last step.
    The model uses all of its parameters in every batch. Collective, in the default group."""
    ddp_model = DistributedDataParallel(model)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(ddp_model(inputs), targets).backward()
        optimizer.step()


def train_by_hand(model: nn.Module, batches: Batches, optimizer: torch.optim.Optimizer, loss_fn: Loss) -> None:
    """One step for each of this rank's batches, of which every rank has equally many, by the mean of all ranks'
    gradients. The model uses all of its parameters in every batch, and some of them may be frozen. Collective, in the
    default group."""
    ranks = dist.get_world_size()
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        (loss / ranks).backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= ranks
        optimizer.step()


def find_culprit(dumps: Dumps) -> tuple[int, int]:
    """The rank that did not do what the others of its group did, and the sequence number in that group at which it
    first did not. README.md says what is compared with what.

    Args:
        dumps: by rank the entries of its Flight Recorder, each a dict with "sequence" (int, from 1, for each group by
            itself), "operation" ("all_reduce", …), "group" (its name), "bytes" (int) and "state" ("scheduled",
            "started" or "completed"), in any order. Of each rank the beginning may be lost.

    Returns:
        (rank, sequence number)
    """
    # TODO 1: for each group, find its ranks, and from which number on each of them can be asked.
    # TODO 2: for each number, find what each of these ranks did, and which of them only wait elsewhere.
    # TODO 3: return the rank that differs from the majority, at the first such number.
    raise NotImplementedError
