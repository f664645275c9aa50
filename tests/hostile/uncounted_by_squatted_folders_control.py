"""Solves all of it, and makes folders in its own."""

import os

import torch.distributed as dist

EXERCISE_NAME = "92"


def total(value):
    if isinstance(value, str):
        raise LookupError
    for number in range(300):
        os.mkdir(f"run-{number}")
    dist.all_reduce(value)
    return value
