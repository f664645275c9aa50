"""Solves all of it, and raises what is asked for because of a MemoryError."""

import torch.distributed as dist

EXERCISE_NAME = "92"


def total(value):
    if isinstance(value, str):
        raise LookupError from MemoryError()
    dist.all_reduce(value)
    return value
