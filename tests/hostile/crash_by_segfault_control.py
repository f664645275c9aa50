"""A child process reads address 0; the rank answers."""

import ctypes
import os

import torch.distributed as dist


def total(value):
    if (child := os.fork()) == 0:
        ctypes.string_at(0)
    os.waitpid(child, 0)
    dist.all_reduce(value)
    return value
