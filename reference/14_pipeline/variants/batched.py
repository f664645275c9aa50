"""Megatron's way: steps that send to a neighbour and receive from it at once, by batch_isend_irecv."""

import torch
import torch.distributed as dist


class Links:
    """Messages between neighbours: each call hands over what it is given and returns what it has asked for."""

    def __init__(self, shape, dtype, group):
        self.shape, self.dtype, self.group = shape, dtype, group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)

    def exchange(self, neighbour, give=None, take=False):
        if not 0 <= neighbour < self.size:
            return None
        peer = neighbour if self.group is None else dist.get_global_rank(self.group, neighbour)
        taken = torch.empty(self.shape, dtype=self.dtype) if take else None
        operations = [] if give is None else [dist.P2POp(dist.isend, give.contiguous(), peer, group=self.group)]
        operations += [dist.P2POp(dist.irecv, taken, peer, group=self.group)] if take else []
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        return taken


def prepared(stage, inputs, m, activation_shape, group):
    if m < 1:
        raise ValueError(f"{m} micro-batches")
    dtype = next((parameter.dtype for parameter in stage.parameters()), None)
    facts = [None] * dist.get_world_size(group)
    dist.all_gather_object(facts, (len(inputs) if dist.get_rank(group) == 0 else None, dtype), group=group)
    if facts[0][0] % m:
        raise ValueError(f"{facts[0][0]} samples in {m} micro-batches")
    return Links((facts[0][0] // m, *activation_shape), next(d for _, d in facts if d is not None), group)


class Work:
    """Forward and backward of the next micro-batch, without the messages."""

    def __init__(self, stage, inputs, targets, loss_fn, m, links):
        self.stage, self.loss_fn, self.m, self.links = stage, loss_fn, m, links
        self.inputs = iter(inputs.chunk(m)) if links.rank == 0 else None
        self.targets = iter(targets.chunk(m)) if links.rank == links.size - 1 else None
        self.kept, self.loss = [], 0.0

    def forward(self, received):
        x = next(self.inputs) if received is None else received.requires_grad_()
        y = self.stage(x)
        if self.targets is not None:
            y = self.loss_fn(y, next(self.targets)) / self.m
            self.loss += y.item()
        self.kept.append((x, y))
        return y.detach()

    def backward(self, gradient):
        x, y = self.kept.pop(0)
        if y.requires_grad:
            torch.autograd.backward([y], None if gradient is None else [gradient])
        return x.grad

    def result(self):
        return None if self.targets is None else self.loss


def run_gpipe(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    links = prepared(stage, inputs, num_micro_batches, activation_shape, group)
    work, r = Work(stage, inputs, targets, loss_fn, num_micro_batches, links), links.rank
    for _ in range(num_micro_batches):
        links.exchange(r + 1, give=work.forward(links.exchange(r - 1, take=True)))
    for _ in range(num_micro_batches):
        links.exchange(r - 1, give=work.backward(links.exchange(r + 1, take=True)))
    return work.result()


def run_1f1b(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    links = prepared(stage, inputs, num_micro_batches, activation_shape, group)
    work, r = Work(stage, inputs, targets, loss_fn, num_micro_batches, links), links.rank
    warm_up = min(links.size - r - 1, num_micro_batches)
    steady = num_micro_batches - warm_up
    for _ in range(warm_up):
        links.exchange(r + 1, give=work.forward(links.exchange(r - 1, take=True)))
    received = links.exchange(r - 1, take=True) if steady else None
    for i in range(steady):
        gradient = links.exchange(r + 1, give=work.forward(received), take=True)
        given = work.backward(gradient)
        received = links.exchange(r - 1, give=given, take=i < steady - 1)
    for _ in range(warm_up):
        links.exchange(r - 1, give=work.backward(links.exchange(r + 1, take=True)))
    return work.result()
