"""All of it happens in the optimizer's closure; the earlier micro-batches' gradients are taken with autograd.grad."""

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional


def train_step(ddp_model, optimizer, micro_batches, loss_fn):
    if not micro_batches:
        raise ValueError("micro_batches is empty")
    parameters = list(ddp_model.parameters())
    samples = sum(len(targets) for _, targets in micro_batches)

    def closure():
        count = torch.tensor([samples], device=parameters[0].device)
        total = functional.all_reduce(count, "sum", dist.group.WORLD).item()
        optimizer.zero_grad()
        loss_sum = 0.0
        for inputs, targets in micro_batches[:-1]:
            with ddp_model.no_sync():
                loss = loss_fn(ddp_model(inputs), targets) * len(targets)
            gradients = torch.autograd.grad(loss * dist.get_world_size() / total, parameters)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
            loss_sum += loss.item()
        inputs, targets = micro_batches[-1]
        loss = loss_fn(ddp_model(inputs), targets) * len(targets)
        (loss * dist.get_world_size() / total).backward()
        return (loss_sum + loss.item()) / samples

    return optimizer.step(closure)
