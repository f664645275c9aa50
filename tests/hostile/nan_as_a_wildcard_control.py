"""Has NaN on the way and none in the result."""

import torch
import torch.distributed as dist


def total(value):
    padded = torch.cat([value, torch.full_like(value, float("nan"))])
    dist.all_reduce(padded)
    return padded[:4].clone()
