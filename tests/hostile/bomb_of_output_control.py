"""Prints 200 kilobytes, and answers."""

import torch.distributed as dist


def total(value):
    for _ in range(2000):
        print("x" * 99)
    dist.all_reduce(value)
    return value
