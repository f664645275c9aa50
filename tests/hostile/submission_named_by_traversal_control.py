"""Asks for the exercise by its number."""

import torch.distributed as dist

EXERCISE_NAME = "91"


def total(value):
    dist.all_reduce(value)
    return value
