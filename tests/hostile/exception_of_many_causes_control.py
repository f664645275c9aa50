"""Raises and catches an exception with a cause, and answers."""

import torch.distributed as dist


def total(value):
    try:
        raise ValueError("second") from KeyError("first")
    except ValueError:
        dist.all_reduce(value)
    return value
