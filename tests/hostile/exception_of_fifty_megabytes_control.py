"""Raises and catches an exception with a long message, and answers."""

import torch.distributed as dist


def total(value):
    try:
        raise RuntimeError("x" * 1_000_000)
    except RuntimeError:
        dist.all_reduce(value)
    return value
