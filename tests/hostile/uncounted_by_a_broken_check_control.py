"""Solves all of it, and raises what is asked for."""

import torch.distributed as dist

EXERCISE_NAME = "92"


def total(value):
    if isinstance(value, str):
        raise LookupError
    dist.all_reduce(value)
    return value
