"""Finishes by itself."""

import torch.distributed as dist


def total(value):
    dist.all_reduce(value)
    return value
