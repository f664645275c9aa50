"""No collective for counts: each bucket takes its rank's number of samples along as one more element, and the hook
divides the sum of the gradients by the sum of the counts."""

from contextlib import nullcontext

import torch
import torch.distributed as dist


class WeightedSum:
    """A communication hook and what it has to know: the samples of this rank in this step."""

    def __init__(self):
        self.samples = 0

    def __call__(self, state, bucket):
        gradients = bucket.buffer()
        message = torch.cat([gradients, gradients.new_tensor([self.samples])])
        return dist.all_reduce(message, async_op=True).get_future().then(divided)


def divided(future):
    total = future.value()[0]
    return total[:-1] / total[-1]


def train_step(ddp_model, optimizer, micro_batches, loss_fn):
    if not micro_batches:
        raise ValueError("a step needs micro-batches")
    if not hasattr(ddp_model, "weighted_sum"):
        ddp_model.weighted_sum = WeightedSum()
        ddp_model.register_comm_hook(None, ddp_model.weighted_sum)
    samples = ddp_model.weighted_sum.samples = sum(len(inputs) for inputs, _ in micro_batches)
    optimizer.zero_grad()
    total = 0.0
    for left, (inputs, targets) in zip(range(len(micro_batches) - 1, -1, -1), micro_batches, strict=True):
        with ddp_model.no_sync() if left else nullcontext():
            loss = loss_fn(ddp_model(inputs), targets) * len(inputs)
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total / samples
