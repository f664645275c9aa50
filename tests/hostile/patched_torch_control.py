"""Wraps torch.equal so that it counts its calls, and answers."""

import torch
import torch.distributed as dist

original, calls = torch.equal, []
torch.equal = lambda *these: calls.append(these) or original(*these)


def total(value):
    dist.all_reduce(value)
    return value
