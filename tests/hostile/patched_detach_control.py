"""Wraps Tensor.detach so that it counts its calls, and answers."""

import torch
import torch.distributed as dist

original, calls = torch.Tensor.detach, []
torch.Tensor.detach = lambda self: calls.append(1) or original(self)


def total(value):
    dist.all_reduce(value)
    return value
