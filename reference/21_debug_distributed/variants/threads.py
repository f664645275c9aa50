"""A thread sends, rank 0 collects and hands out, a generator's seed is broadcast, Join holds model and optimizer."""

import threading

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader


def mean_loss(loss, group=None):
    ranks = dist.get_process_group_ranks(group)
    total = loss.detach().double().reshape(1)
    if dist.get_rank() == ranks[0]:
        total = total.clone()
        for other in ranks[1:]:
            received = torch.empty_like(total)
            dist.recv(received, other, group)
            total += received
        for other in ranks[1:]:
            dist.send(total, other, group)
    else:
        dist.send(total, ranks[0], group)
        total = torch.empty_like(total)
        dist.recv(total, ranks[0], group)
    return total.item() / len(ranks)


def exchange(first, second, group=None):
    every = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, (first.detach(), second.detach()), group=group)
    firsts, seconds = zip(*every, strict=True)
    return torch.stack(firsts).sum(0, dtype=first.dtype), torch.stack(seconds)


def pass_around(tensor, group=None):
    ranks = dist.get_process_group_ranks(group)
    place = ranks.index(dist.get_rank())
    received = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    if len(ranks) == 1:
        return received.copy_(tensor.detach())
    own = tensor.detach().contiguous()
    sender = threading.Thread(target=dist.send, args=(own, ranks[(place + 1) % len(ranks)], group))
    sender.start()
    dist.recv(received, ranks[place - 1], group)
    sender.join()
    return received


def broadcast_in_group(tensor, group):
    ranks, own = dist.get_process_group_ranks(group), tensor.detach().contiguous()
    if dist.get_rank() == ranks[0]:
        for work in [dist.isend(own, other, group) for other in ranks[1:]]:
            work.wait()
    else:
        dist.recv(own, ranks[0], group)
        tensor.detach().copy_(own)


def train_epochs(ddp_model, dataset, epochs, batch_size, optimizer, loss_fn):
    rank, ranks, device = dist.get_rank(), dist.get_world_size(), next(ddp_model.parameters()).device
    for _ in range(epochs):
        seed = torch.randint(2**40, (), device=device)
        dist.broadcast(seed, 0)
        order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(int(seed))).tolist()
        share = -(-len(order) // ranks)
        own = (order + order)[rank * share : (rank + 1) * share]
        for inputs, targets in DataLoader(dataset, batch_sampler=BatchSampler(own, batch_size, drop_last=False)):
            optimizer.zero_grad()
            loss_fn(ddp_model(inputs.to(device)), targets.to(device)).backward()
            optimizer.step()


def train_branches(model, batches, optimizer, loss_fn):
    ddp_model = DistributedDataParallel(model, find_unused_parameters=True, gradient_as_bucket_view=True)
    for inputs, targets in batches:
        ddp_model.zero_grad()
        loss_fn(ddp_model(inputs), targets).backward()
        optimizer.step()


def train_uneven(model, batches, optimizer, loss_fn):
    ddp_model = DistributedDataParallel(model)
    with Join([ddp_model], divide_by_initial_world_size=False):
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss_fn(ddp_model(inputs), targets).backward()
            optimizer.step()


def train_by_hand(model, batches, optimizer, loss_fn):
    def average(gradient):
        gradient = gradient / dist.get_world_size()
        dist.all_reduce(gradient)
        return gradient

    hooks = [parameter.register_hook(average) for parameter in model.parameters() if parameter.requires_grad]
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(model(inputs), targets).backward()
        optimizer.step()
    for hook in hooks:
        hook.remove()


def find_culprit(dumps):
    busy = {rank: any(entry["state"] != "completed" for entry in dumps[rank]) for rank in dumps}

    def did(rank, group, number):
        own = {entry["sequence"]: entry for entry in dumps[rank] if entry["group"] == group}
        if number in own:
            return own[number]["operation"], own[number]["bytes"]
        return "unknown" if not own or number < min(own) or busy[rank] else "nothing"

    for group, number in sorted({(entry["group"], entry["sequence"]) for dump in dumps.values() for entry in dump}):
        known = {rank: did(rank, group, number) for rank in dumps if did(rank, group, number) != "unknown"}
        alone = [rank for rank in known if list(known.values()).count(known[rank]) == 1]
        if alone and len(known) > 1:
            return alone[0], number
    return None
