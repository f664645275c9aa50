"""Catches an exception with a long stack, and answers."""

import torch.distributed as dist


def deep(levels):
    return 1 / 0 if levels == 0 else deep(levels - 1)


def total(value):
    try:
        deep(500)
    except ZeroDivisionError:
        dist.all_reduce(value)
    return value
