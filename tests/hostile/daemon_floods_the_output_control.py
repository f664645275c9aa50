"""Leaves a child behind that prints a line, and answers."""

import os

import torch.distributed as dist


def total(value):
    if os.fork() == 0:
        os.write(1, b"a line\n")
        os._exit(0)
    dist.all_reduce(value)
    return value
