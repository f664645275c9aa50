"""torch.func in place of .backward(): a stage is a pure function of its parameters and of what arrives. Its forward
gives outputs and a function that pulls a gradient back through them, whose results are added to .grad by hand."""

import torch
import torch.distributed as dist
from torch.func import functional_call, vjp


def run_gpipe(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    part = Part(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)
    for number in range(num_micro_batches):
        part.forward(number)
    for number in reversed(range(num_micro_batches)):
        part.backward(number)
    return part.end()


def run_1f1b(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    part = Part(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)
    ahead = part.ranks - part.rank - 1
    for number in range(num_micro_batches):
        part.forward(number)
        if number >= ahead:
            part.backward(number - ahead)
    for number in range(max(num_micro_batches - ahead, 0), num_micro_batches):
        part.backward(number)
    return part.end()


class Part:
    def __init__(self, stage, inputs, targets, loss_fn, m, activation_shape, group):
        if m < 1:
            raise ValueError("at least one micro-batch is needed")
        self.stage, self.loss_fn, self.m, self.group = stage, loss_fn, m, group
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        own = (len(inputs) if self.rank == 0 else None, [one.dtype for one in stage.parameters()])
        told = [None] * self.ranks
        dist.all_gather_object(told, own, group=group)
        self.samples, rest = divmod(told[0][0], m)
        if rest:
            raise ValueError(f"{told[0][0]} samples do not make {m} equal micro-batches")
        self.dtype = next(dtype for _, dtypes in told for dtype in dtypes)
        self.shape = (self.samples, *activation_shape)
        self.device = torch.device("cuda" if "nccl" in dist.get_backend_config(group) else "cpu")
        self.inputs, self.targets = inputs, targets
        self.trained = {name: one for name, one in stage.named_parameters() if one.requires_grad}
        self.pull_back, self.sent, self.sent_back, self.total = {}, {}, [], 0.0

    def forward(self, number):
        rows = slice(number * self.samples, (number + 1) * self.samples)
        arrived = self.inputs[rows] if self.rank == 0 else self.receive(self.rank - 1)

        def compute(parameters, *activations):
            outputs = functional_call(self.stage, parameters, activations or (arrived,))
            return outputs if self.rank < self.ranks - 1 else self.loss_fn(outputs, self.targets[rows]) / self.m

        values = {name: one.detach() for name, one in self.trained.items()}
        outputs, self.pull_back[number] = vjp(compute, values, *[arrived][: self.rank])
        if self.rank == self.ranks - 1:
            self.total += outputs.item()
        else:
            self.sent[number] = self.send(outputs.clone(), self.rank + 1)

    def backward(self, number):
        if self.rank == self.ranks - 1:
            gradient = torch.ones((), dtype=self.dtype, device=self.device)
        else:
            gradient = self.receive(self.rank + 1)
            self.sent.pop(number)[0].wait()
        found, *back = self.pull_back.pop(number)(gradient)
        for name, parameter in self.trained.items():
            parameter.grad = found[name] if parameter.grad is None else parameter.grad + found[name]
        if back:
            self.sent_back.append(self.send(back[0], self.rank - 1))

    def end(self):
        for work, _ in self.sent_back:
            work.wait()
        return self.total if self.rank == self.ranks - 1 else None

    def send(self, tensor, neighbour):
        tensor = tensor.contiguous()
        return dist.isend(tensor, group=self.group, group_dst=neighbour), tensor

    def receive(self, neighbour):
        tensor = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        dist.recv(tensor, group=self.group, group_src=neighbour)
        return tensor
