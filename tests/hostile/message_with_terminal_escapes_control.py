"""Prints in colour, and answers."""

import torch.distributed as dist


def total(value):
    print("\x1b[32mgreen\x1b[0m")
    dist.all_reduce(value)
    return value
