"""Solves all of it, and raises what is asked for after a moment of sleep."""

import time

import torch.distributed as dist

EXERCISE_NAME = "92"


def total(value):
    time.sleep(0.01)
    if isinstance(value, str):
        raise LookupError
    dist.all_reduce(value)
    return value
