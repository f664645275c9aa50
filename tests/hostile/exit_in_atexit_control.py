"""Has an atexit handler that sets the exit code to 1, and answers."""

import atexit
import os

import torch.distributed as dist

atexit.register(os._exit, 1)


def total(value):
    dist.all_reduce(value)
    return value
