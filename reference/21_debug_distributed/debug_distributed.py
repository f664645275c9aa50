"""Solution of exercise 21: each program with the rule that it had broken, and a count of what the ranks did."""

from collections import Counter
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
    mean = loss.detach().clone()
    dist.all_reduce(mean, group=group)  # every rank calls, whether it needs the result or not
    return mean.item() / dist.get_world_size(group)


def exchange(
    first: torch.Tensor, second: torch.Tensor, group: dist.ProcessGroup | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    total = first.detach().clone(memory_format=torch.contiguous_format)
    own = second.detach().contiguous()
    gathered = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_reduce(total, group=group)  # calls are matched by their order, so it is the same on all ranks
    dist.all_gather(gathered, own, group=group)
    return total, torch.stack(gathered)


def pass_around(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    own = tensor.detach().contiguous()
    if ranks == 1:
        return own.clone()
    received = torch.empty_like(own)
    sending = dist.P2POp(dist.isend, own, group=group, group_peer=(rank + 1) % ranks)
    receiving = dist.P2POp(dist.irecv, received, group=group, group_peer=(rank - 1) % ranks)
    for work in dist.batch_isend_irecv([sending, receiving]):  # both begun, so nobody waits for a send here
        work.wait()
    return received


def broadcast_in_group(tensor: torch.Tensor, group: dist.ProcessGroup) -> None:
    elements = tensor.detach().contiguous()
    dist.broadcast(elements, src=dist.get_global_rank(group, 0), group=group)  # src is a rank of the world
    tensor.detach().copy_(elements)


def train_epochs(
    ddp_model: DistributedDataParallel,
    dataset: Dataset[Any],
    epochs: int,
    batch_size: int,
    optimizer: torch.optim.Optimizer,
    loss_fn: Loss,
) -> None:
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
    device = next(ddp_model.parameters()).device
    for epoch in range(epochs):
        sampler.set_epoch(epoch)  # the order is drawn by seed + epoch
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_fn(ddp_model(inputs.to(device)), targets.to(device)).backward()
            optimizer.step()


def train_branches(model: nn.Module, batches: Batches, optimizer: torch.optim.Optimizer, loss_fn: Loss) -> None:
    # The reducer waits for every gradient; those that forward's graph does not lead to it now takes for zero.
    ddp_model = DistributedDataParallel(model, find_unused_parameters=True)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(ddp_model(inputs), targets).backward()
        optimizer.step()


def train_uneven(model: nn.Module, batches: Batches, optimizer: torch.optim.Optimizer, loss_fn: Loss) -> None:
    ddp_model = DistributedDataParallel(model)
    # A rank without a batch answers the others' collectives, with zeros. In the end all get the last one's parameters.
    with ddp_model.join(divide_by_initial_world_size=False):  # the mean is over those that have a batch
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss_fn(ddp_model(inputs), targets).backward()
            optimizer.step()


def train_by_hand(model: nn.Module, batches: Batches, optimizer: torch.optim.Optimizer, loss_fn: Loss) -> None:
    ranks = dist.get_world_size()
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(model(inputs), targets).backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= ranks  # once
        optimizer.step()


def find_culprit(dumps: Dumps) -> tuple[int, int]:
    waiting = {rank for rank, entries in dumps.items() if any(one["state"] != "completed" for one in entries)}
    for group in {one["group"] for entries in dumps.values() for one in entries}:
        launched = {
            rank: {one["sequence"]: (one["operation"], one["bytes"]) for one in entries if one["group"] == group}
            for rank, entries in dumps.items()
        }
        launched = {rank: own for rank, own in launched.items() if own}  # the ranks of the group
        for sequence in range(1, max(map(max, launched.values())) + 1):
            did = {
                rank: own.get(sequence)  # None: it did not come
                for rank, own in launched.items()
                if min(own) <= sequence  # what is lost says nothing
                and (sequence in own or rank not in waiting)  # who waits elsewhere is late, and that is all
            }
            usual = Counter(did.values()).most_common(1)
            for rank, what in did.items():
                if what != usual[0][0]:
                    return rank, sequence
    raise ValueError("no rank differs from the others")
