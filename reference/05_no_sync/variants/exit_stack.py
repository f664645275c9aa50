"""no_sync is entered once and left before the last micro-batch; the gradients are scaled after the last backward."""

from contextlib import ExitStack

import torch
import torch.distributed as dist


def train_step(ddp_model, optimizer, micro_batches, loss_fn):
    if len(micro_batches) == 0:
        raise ValueError("no micro-batches")
    optimizer.zero_grad(set_to_none=False)
    losses, samples = [], 0
    with ExitStack() as quiet:
        quiet.enter_context(ddp_model.no_sync())
        for number, (inputs, targets) in enumerate(micro_batches, start=1):
            if number == len(micro_batches):
                quiet.close()
            outputs = ddp_model(inputs)
            loss = loss_fn(outputs, targets)
            (loss * inputs.shape[0]).backward()
            losses.append(loss.item() * inputs.shape[0])
            samples += inputs.shape[0]
    total = torch.tensor([float(samples)], device=inputs.device)
    dist.all_reduce(total)
    for parameter in ddp_model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(dist.get_world_size() / total.item())
    optimizer.step()
    return sum(losses) / samples
