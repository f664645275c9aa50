"""Forks ten processes, one after the other, and answers."""

import os

import torch.distributed as dist


def total(value):
    for _ in range(10):
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
    dist.all_reduce(value)
    return value
