"""Switches DDP by its attribute, counts in the background, and weights the gradient that backward starts with."""

import torch
import torch.distributed as dist


def train_step(ddp_model, optimizer, micro_batches, loss_fn):
    if not micro_batches:
        raise ValueError("micro_batches is empty")
    sizes = [targets.size(0) for _, targets in micro_batches]
    total = torch.tensor(sizes, device=micro_batches[0][0].device).sum()
    counting = dist.all_reduce(total, async_op=True)
    for parameter in ddp_model.parameters():
        parameter.grad = None
    mean_loss = 0.0
    for number, (inputs, targets) in enumerate(micro_batches):
        ddp_model.require_backward_grad_sync = number == len(micro_batches) - 1
        loss = loss_fn(ddp_model(inputs), targets)
        counting.wait()
        # In tensor arithmetic the weight is a float32, whatever the model's dtype is.
        loss.backward(gradient=(sizes[number] * dist.get_world_size() / total).to(loss.dtype))
        mean_loss += float(loss) * sizes[number] / sum(sizes)
    optimizer.step()
    return mean_loss
