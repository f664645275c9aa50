"""torch.distributed.pipelining on gloo: PipelineStage with ScheduleGPipe. What has to be done beside: the batch's size
and the dtype are told to all ranks; gradients are not scaled by the schedule, which would also scale what was in
`.grad` before, so the loss is divided; outputs are not returned, or the last stage would keep all of them.

1F1B is a loop of its own: torch's Schedule1F1B refuses fewer micro-batches than stages. Here gradients are handed back
by hooks of the received activations, in the midst of backward.
"""

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def facts_of(stage, inputs, m, group):
    """The size of a micro-batch and the dtype of activations."""
    if m < 1:
        raise ValueError("num_micro_batches < 1")
    facts = [None] * dist.get_world_size(group)
    dtype = next((parameter.dtype for parameter in stage.parameters()), None)
    dist.all_gather_object(facts, (len(inputs) if dist.get_rank(group) == 0 else None, dtype), group=group)
    batch, dtype = facts[0][0], next(one for _, one in facts if one is not None)
    if batch % m:
        raise ValueError("num_micro_batches does not divide the batch")
    return batch // m, dtype


class Contiguous(torch.nn.Module):
    """A stage whose outputs are contiguous."""

    def __init__(self, stage):
        super().__init__()
        self.stage = stage

    def forward(self, x):
        return self.stage(x).contiguous()


def run_gpipe(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    rank, size, m = dist.get_rank(group), dist.get_world_size(group), num_micro_batches
    samples, dtype = facts_of(stage, inputs, m, group)
    meta = torch.empty(samples, *activation_shape, dtype=dtype, device="meta")
    given = inputs[:samples].to("meta") if rank == 0 else meta.requires_grad_()
    if rank == size - 1:
        out = torch.empty(samples, device="meta", dtype=dtype)
    else:
        out = torch.empty_like(meta).requires_grad_()
    stage = Contiguous(stage)
    part = PipelineStage(stage, rank, size, torch.device("cpu"), input_args=(given,), output_args=(out,), group=group)
    schedule = ScheduleGPipe(part, m, loss_fn=lambda outputs, wanted: loss_fn(outputs, wanted) / m, scale_grads=False)
    losses = [] if rank == size - 1 else None
    arguments = (inputs,) if rank == 0 else ()
    schedule.step(*arguments, target=targets if rank == size - 1 else None, losses=losses, return_outputs=False)
    return sum(loss.item() for loss in losses) if losses is not None else None


def run_1f1b(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    samples, dtype = facts_of(stage, inputs, num_micro_batches, group)
    flow = Flow(stage, inputs, targets, lambda y, t: loss_fn(y, t) / num_micro_batches, group)
    flow.shape, flow.dtype = (samples, *activation_shape), dtype
    lead = min(flow.size - flow.rank - 1, num_micro_batches)
    for i in range(num_micro_batches + lead):
        if i < num_micro_batches:
            flow.forward(slice(i * samples, (i + 1) * samples))
        if i >= lead:
            flow.backward()
    for work, _ in flow.under_way:
        work.wait()
    return sum(flow.losses) if flow.rank == flow.size - 1 else None


class Flow:
    def __init__(self, stage, inputs, targets, loss_fn, group):
        self.stage, self.inputs, self.targets, self.loss_fn, self.group = stage, inputs, targets, loss_fn, group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.under_way, self.outputs, self.losses = [], [], []

    def receive(self, neighbour):
        tensor = torch.empty(self.shape, dtype=self.dtype)
        dist.recv(tensor, group=self.group, group_src=neighbour)
        return tensor

    def hand_back(self, gradient):
        gradient = gradient.contiguous()
        self.under_way.append((dist.isend(gradient, group=self.group, group_dst=self.rank - 1), gradient))

    def forward(self, part):
        x = self.inputs[part] if self.rank == 0 else self.receive(self.rank - 1).requires_grad_()
        if self.rank > 0:
            x.register_hook(self.hand_back)
        y = self.stage(x)
        if self.rank == self.size - 1:
            y = self.loss_fn(y, self.targets[part])
            self.losses.append(y.item())
            self.outputs.append((y, None))
        else:
            self.outputs.append((y, dist.isend(y.detach().contiguous(), group=self.group, group_dst=self.rank + 1)))

    def backward(self):
        y, sent = self.outputs.pop(0)
        gradient = None if sent is None else self.receive(self.rank + 1)
        if sent is not None:
            sent.wait()
        if y.requires_grad:
            y.backward(gradient)
