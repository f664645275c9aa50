"""A child process leaves by os._exit(0) in the call; the rank answers."""

import os

import torch.distributed as dist


def total(value):
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    dist.all_reduce(value)
    return value
