"""torch.distributed.pipelining on gloo: PipelineStage with ScheduleGPipe and Schedule1F1B.

What has to be done beside: the batch's size and the dtype are told to all ranks; gradients are not scaled by the
schedule, which would also scale what was in `.grad` before, so the loss is divided; outputs are not returned, or the
last stage would keep all of them.
"""

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe


def run_gpipe(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    return run(ScheduleGPipe, stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)


def run_1f1b(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    return run(Schedule1F1B, stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)


def run(kind, stage, inputs, targets, loss_fn, m, activation_shape, group):
    if m < 1:
        raise ValueError("num_micro_batches < 1")
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    facts = [None] * size
    dtype = next((parameter.dtype for parameter in stage.parameters()), None)
    dist.all_gather_object(facts, (len(inputs) if rank == 0 else None, dtype), group=group)
    batch, dtype = facts[0][0], next(one for _, one in facts if one is not None)
    if batch % m:
        raise ValueError("num_micro_batches does not divide the batch")
    meta = torch.empty(batch // m, *activation_shape, dtype=dtype, device="meta")
    given = inputs[: batch // m].to("meta") if rank == 0 else meta.requires_grad_()
    if rank == size - 1:
        out = torch.empty(batch // m, device="meta", dtype=dtype)
    else:
        out = torch.empty_like(meta).requires_grad_()
    part = PipelineStage(stage, rank, size, torch.device("cpu"), input_args=(given,), output_args=(out,), group=group)
    schedule = kind(part, m, loss_fn=lambda outputs, wanted: loss_fn(outputs, wanted) / m, scale_grads=False)
    losses = [] if rank == size - 1 else None
    arguments = (inputs,) if rank == 0 else ()
    schedule.step(*arguments, target=targets if rank == size - 1 else None, losses=losses, return_outputs=False)
    return sum(loss.item() for loss in losses) if losses is not None else None
