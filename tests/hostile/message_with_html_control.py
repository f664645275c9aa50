"""Prints angle brackets, and answers."""

import torch.distributed as dist


def total(value):
    print("1 < 2 & 3 > 2")
    dist.all_reduce(value)
    return value
