"""Raises and catches an exception without a message, and answers."""

import torch.distributed as dist


def total(value):
    try:
        raise ValueError
    except ValueError:
        dist.all_reduce(value)
    return value
