"""torch.func differentiates a pure function of the parameters in all micro-batches but the last, past the wrapper. What
it gives is put into .grad, and the backward pass that DDP sees adds the last micro-batch's to it."""

import torch
import torch.distributed as dist
from torch.func import functional_call, vjp


def train_step(ddp_model, optimizer, micro_batches, loss_fn):
    if not micro_batches:
        raise ValueError("no micro-batch, no step")
    model, parameters = ddp_model.module, dict(ddp_model.module.named_parameters())
    counts = torch.zeros(dist.get_world_size(), dtype=torch.int64, device=micro_batches[0][0].device)
    counts[dist.get_rank()] = sum(len(targets) for _, targets in micro_batches)
    dist.all_reduce(counts)
    weight = len(counts) / counts.sum().item()
    own = {name: parameter.detach() for name, parameter in parameters.items()}
    gradients, loss_sum = [torch.zeros_like(value) for value in own.values()], 0.0

    *earlier, (inputs, targets) = micro_batches
    for one in earlier:
        loss_sum += add_gradients(gradients, model, own, one, loss_fn, weight)
    for parameter, gradient in zip(parameters.values(), gradients, strict=True):
        parameter.grad = gradient
    loss = loss_fn(ddp_model(inputs), targets)
    (loss * len(targets) * weight).backward()
    optimizer.step()
    return (loss_sum + loss.item() * len(targets)) / counts[dist.get_rank()].item()


def add_gradients(gradients, model, parameters, micro_batch, loss_fn, weight):
    """Add a micro-batch's to them, and return its loss times its samples. What forward has kept ends with the call."""
    inputs, targets = micro_batch
    loss, pull_back = vjp(lambda values: loss_fn(functional_call(model, values, inputs), targets), parameters)
    (found,) = pull_back(torch.full_like(loss, len(targets) * weight))
    torch._foreach_add_(gradients, list(found.values()))
    return loss.item() * len(targets)
