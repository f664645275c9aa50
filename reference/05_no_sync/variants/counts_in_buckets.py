"""No collective for counts: each bucket takes its rank's number of samples along as one more element, and the hook
divides the sum of the gradients by the sum of the counts."""

from contextlib import nullcontext

import torch
import torch.distributed as dist


class Count:
    """What the communication hook has to know: the samples of this rank in this step."""

    samples = 0


def weighted_sum(count, bucket):
    gradients = bucket.buffer()
    message = torch.cat([gradients, gradients.new_tensor([count.samples])])
    return dist.all_reduce(message, async_op=True).get_future().then(divided)


def divided(future):
    total = future.value()[0]
    return total[:-1] / total[-1]


def train_step(ddp_model, optimizer, micro_batches, loss_fn):
    if not micro_batches:
        raise ValueError("a step needs micro-batches")
    if not hasattr(ddp_model, "count"):
        ddp_model.count = Count()
        ddp_model.register_comm_hook(ddp_model.count, weighted_sum)
    samples = ddp_model.count.samples = sum(len(inputs) for inputs, _ in micro_batches)
    optimizer.zero_grad()
    total = 0.0
    for left, (inputs, targets) in zip(range(len(micro_batches) - 1, -1, -1), micro_batches, strict=True):
        with ddp_model.no_sync() if left else nullcontext():
            loss = loss_fn(ddp_model(inputs), targets) * len(inputs)
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total / samples
