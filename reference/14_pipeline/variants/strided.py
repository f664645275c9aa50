"""Micro-batches that are not slices but every m-th sample; gradients by torch.autograd.grad, added to .grad by hand;
GPipe's backwards in the opposite order; outputs that are given free once they have been sent."""

import torch
import torch.distributed as dist


class Rank:
    def __init__(self, stage, inputs, targets, loss_fn, m, activation_shape, group):
        if m < 1:
            raise ValueError("num_micro_batches has to be positive")
        self.group, self.me, self.n, self.m = group, dist.get_rank(group), dist.get_world_size(group), m
        first = dist.get_process_group_ranks(group or dist.group.WORLD)[0]
        samples = torch.tensor([len(inputs) if self.me == 0 else 0])
        dist.broadcast(samples, first, group=group)
        if samples.item() % m:
            raise ValueError("num_micro_batches has to divide the batch")
        dtypes = [None] * self.n
        dist.all_gather_object(dtypes, next((p.dtype for p in stage.parameters()), None), group=group)
        self.buffer = lambda: torch.empty(samples.item() // m, *activation_shape, dtype=next(filter(None, dtypes)))
        self.stage, self.inputs, self.targets, self.loss_fn = stage, inputs, targets, loss_fn
        self.graphs, self.under_way, self.losses = {}, [], []

    def peer(self, step):
        return dist.get_global_rank(self.group or dist.group.WORLD, self.me + step)

    def receive(self, step):
        buffer = self.buffer()
        dist.recv(buffer, src=self.peer(step), group=self.group)
        return buffer

    def forward(self, i):
        x = self.inputs[i :: self.m] if self.me == 0 else self.receive(-1).requires_grad_()
        y = self.stage(x)
        if self.me == self.n - 1:
            y = self.loss_fn(y, self.targets[i :: self.m])
            self.losses.append(y.detach())
            self.graphs[i] = x, y, None
            return
        copy = y.detach().clone(memory_format=torch.contiguous_format)  # so that the output itself need not live on
        work = dist.isend(copy, dst=self.peer(1), group=self.group)
        self.under_way.append((work, copy))
        self.graphs[i] = x, y, None
        y.data = torch.empty((), dtype=y.dtype).expand(y.shape)

    def backward(self, i):
        x, y, _ = self.graphs.pop(i)
        gradient = self.receive(1) if self.me < self.n - 1 else torch.full_like(y, 1 / self.m)
        if y.requires_grad:
            wanted = [p for p in self.stage.parameters() if p.requires_grad]
            leaves = [*wanted, *([x] if self.me else [])]
            found = torch.autograd.grad(y, leaves, gradient)
            for parameter, one in zip(wanted, found, strict=False):
                parameter.grad = one if parameter.grad is None else parameter.grad + one
            if self.me:
                back = found[-1].contiguous()
                self.under_way.append((dist.isend(back, dst=self.peer(-1), group=self.group), back))

    def result(self):
        for work, _ in self.under_way:
            work.wait()
        return torch.stack(self.losses).mean().item() if self.losses else None


def run_gpipe(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    rank = Rank(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)
    for i in range(num_micro_batches):
        rank.forward(i)
    for i in reversed(range(num_micro_batches)):
        rank.backward(i)
    return rank.result()


def run_1f1b(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    rank = Rank(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)
    lead = rank.n - rank.me - 1
    for i in range(num_micro_batches + lead):
        if i < num_micro_batches:
            rank.forward(i)
        if i >= lead:
            rank.backward(i - lead)
    return rank.result()
