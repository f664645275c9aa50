"""Parameters one by one: who uses them is asked, and gradients are gathered; tensors of every rank in turn."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset


def mean_loss(loss, group=None):
    ranks, every = dist.get_world_size(group), []
    for place in range(ranks):
        one = loss.detach().clone()
        dist.broadcast(one, group_src=place, group=group)
        every.append(one.item())
    return sum(every) / ranks


def exchange(first, second, group=None):
    totals, gathered = [], []
    for place in range(dist.get_world_size(group)):
        for tensor, found in ((second, gathered), (first, totals)):
            own = tensor.detach().clone(memory_format=torch.contiguous_format)
            dist.broadcast(own, group_src=place, group=group)
            found.append(own)
    return sum(totals), torch.stack(gathered)


def pass_around(tensor, group=None):
    ranks, place = dist.get_world_size(group), dist.get_rank(group)
    own = tensor.detach().clone(memory_format=torch.contiguous_format)
    received = torch.empty_like(own)
    if ranks == 1:
        return own
    if place == 0:  # one that receives first is enough: the others follow one another
        dist.recv(received, group_src=ranks - 1, group=group)
    dist.send(own, group_dst=(place + 1) % ranks, group=group)
    if place:
        dist.recv(received, group_src=place - 1, group=group)
    return received


def broadcast_in_group(tensor, group):
    own = tensor.detach()
    elements = own.clone(memory_format=torch.contiguous_format)
    if dist.get_rank(group):
        elements.zero_()
    dist.all_reduce(elements, dist.ReduceOp.MAX if own.dtype is torch.bool else dist.ReduceOp.SUM, group=group)
    own.copy_(elements)


def train_epochs(ddp_model, dataset, epochs, batch_size, optimizer, loss_fn):
    """A permutation of the data set by itself; the sampler only shares it out."""
    device = next(ddp_model.parameters()).device
    for epoch in range(epochs):
        order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(epoch)).tolist()
        shuffled = Subset(dataset, order)
        loader = DataLoader(shuffled, batch_size, sampler=DistributedSampler(shuffled, shuffle=False))
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_fn(ddp_model(inputs.to(device)), targets.to(device)).backward()
            optimizer.step()


def train_branches(model, batches, optimizer, loss_fn):
    """What nobody uses in a step has no gradient in it."""
    learning = [one for one in model.parameters() if one.requires_grad]
    for inputs, targets in batches:
        gradients = torch.autograd.grad(loss_fn(model(inputs), targets), learning, allow_unused=True)
        users = torch.tensor([float(one is not None) for one in gradients], device=inputs.device)
        dist.all_reduce(users)
        for parameter, gradient, many in zip(learning, gradients, users.tolist(), strict=True):
            parameter.grad = None
            if many:
                total = torch.zeros_like(parameter) if gradient is None else gradient.contiguous()
                dist.all_reduce(total)
                parameter.grad = total / dist.get_world_size()
        optimizer.step()


def train_uneven(model, batches, optimizer, loss_fn):
    """A rank that is through asks whether the others are as well, and answers with zeros until they are."""
    ddp_model = DistributedDataParallel(model)
    device, own = next(model.parameters()).device, iter(batches)
    while True:
        batch = next(own, None)
        left = torch.tensor(float(batch is not None), device=device)
        dist.all_reduce(left)
        if not left:
            return
        optimizer.zero_grad()
        with ddp_model.no_sync():
            if batch is not None:
                loss_fn(ddp_model(batch[0]), batch[1]).backward()
        for parameter in model.parameters():
            if parameter.requires_grad:
                gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                dist.all_reduce(gradient)
                parameter.grad = gradient / left
        optimizer.step()


def train_by_hand(model, batches, optimizer, loss_fn):
    ranks = dist.get_world_size()
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(model(inputs), targets).backward()
        for parameter in [one for one in model.parameters() if one.grad is not None]:
            every = [torch.empty_like(parameter) for _ in range(ranks)]
            dist.all_gather(every, parameter.grad)
            parameter.grad = torch.stack(every).mean(0)
        optimizer.step()


def find_culprit(dumps):
    waits = {rank for rank in dumps for one in dumps[rank] if one["state"] != "completed"}
    found = []
    for group in {one["group"] for rank in dumps for one in dumps[rank]}:
        own = {rank: {} for rank in dumps}
        for rank in dumps:
            own[rank].update({o["sequence"]: (o["operation"], o["bytes"]) for o in dumps[rank] if o["group"] == group})
        ranks = [rank for rank in dumps if own[rank]]
        for one in ranks:
            for number in sorted({n for rank in ranks for n in own[rank]}):
                if number < min(own[one]) or (number not in own[one] and one in waits):
                    continue
                asked = [r for r in ranks if number >= min(own[r]) and (number in own[r] or r not in waits)]
                against = sum(own[r].get(number) != own[one].get(number) for r in asked)
                if against > len(asked) / 2:
                    found.append((number, one))
    number, rank = min(found)
    return rank, number
