"""Builds a deeply nested list and keeps it to itself."""

import torch.distributed as dist


def total(value):
    nested = []
    for _ in range(500):
        nested = [nested]
    dist.all_reduce(value)
    return value
