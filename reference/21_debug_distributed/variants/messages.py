"""By batched messages, gathered losses, indices of one's own, and gradients that are summed with a count."""

import collections

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def mean_loss(loss, group=None):
    own = loss.detach().reshape(1).double()
    every = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, own, group=group)
    return float(torch.cat(every).mean())


def exchange(first, second, group=None):
    ranks = dist.get_world_size(group)
    gathered = torch.empty(ranks * second.numel(), dtype=second.dtype, device=second.device)
    dist.all_gather_into_tensor(gathered, second.detach().flatten(), group=group)
    total = first.detach().contiguous().clone()
    dist.all_reduce(total, group=group)
    return total, gathered.view(ranks, *second.shape)


def pass_around(tensor, group=None):
    ranks, rank = dist.get_process_group_ranks(group), dist.get_rank()
    place = ranks.index(rank)
    received = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    if len(ranks) == 1:
        return received.copy_(tensor.detach())
    operations = [
        dist.P2POp(dist.isend, tensor.detach().contiguous(), ranks[(place + 1) % len(ranks)], group),
        dist.P2POp(dist.irecv, received, ranks[place - 1], group),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return received


def broadcast_in_group(tensor, group):
    with torch.no_grad():
        elements = tensor.clone(memory_format=torch.contiguous_format)
        dist.broadcast(elements, group_src=0, group=group)
        tensor.copy_(elements)


def train_epochs(ddp_model, dataset, epochs, batch_size, optimizer, loss_fn):
    rank, ranks, device = dist.get_rank(), dist.get_world_size(), next(ddp_model.parameters()).device
    for epoch in range(epochs):
        order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(1000 + epoch))
        order = torch.cat([order, order[: -len(order) % ranks]])
        for batch in order[rank::ranks].split(batch_size):
            inputs, targets = map(torch.stack, zip(*(dataset[int(number)] for number in batch), strict=True))
            optimizer.zero_grad()
            loss_fn(ddp_model(inputs.to(device)), targets.to(device)).backward()
            optimizer.step()


def train_branches(model, batches, optimizer, loss_fn):
    ddp_model = DistributedDataParallel(model)
    for inputs, targets in batches:
        optimizer.zero_grad()
        unused = sum(parameter.sum() for parameter in model.parameters() if parameter.requires_grad)
        (loss_fn(ddp_model(inputs), targets) + 0 * unused).backward()
        optimizer.step()


def train_uneven(model, batches, optimizer, loss_fn):
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    steps = torch.tensor(len(batches), device=parameters[0].device)
    dist.all_reduce(steps, dist.ReduceOp.MAX)
    for step in range(int(steps)):
        optimizer.zero_grad()
        count = torch.zeros((), device=steps.device)
        if step < len(batches):
            inputs, targets = batches[step]
            loss_fn(model(inputs), targets).backward()
            count += 1
        dist.all_reduce(count)
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= count
        optimizer.step()


def train_by_hand(model, batches, optimizer, loss_fn):
    ranks = dist.get_world_size()
    for inputs, targets in batches:
        optimizer.zero_grad()
        (loss_fn(model(inputs), targets) / ranks).backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
        optimizer.step()


def find_culprit(dumps):
    entries = collections.defaultdict(dict)
    begins = {}
    for rank, dump in dumps.items():
        for entry in dump:
            place = entry["group"], entry["sequence"]
            entries[place][rank] = entry["operation"], entry["bytes"]
            begins[entry["group"], rank] = min(begins.get((entry["group"], rank), place[1]), place[1])
    free = {rank for rank, dump in dumps.items() if all(entry["state"] == "completed" for entry in dump)}
    for place in sorted(entries):
        for group, rank in begins:
            if group == place[0] and rank in free and begins[group, rank] <= place[1]:
                entries[place].setdefault(rank, "nothing")
        did = list(entries[place].values())
        for rank, what in entries[place].items():
            if did.count(what) * 2 < len(did):
                return rank, place[1]
