"""A child process aborts; the rank answers."""

import os

import torch.distributed as dist


def total(value):
    if (child := os.fork()) == 0:
        os.abort()
    os.waitpid(child, 0)
    dist.all_reduce(value)
    return value
