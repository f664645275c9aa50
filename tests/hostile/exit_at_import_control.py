"""A child process leaves by os._exit(0) while the file is imported; the rank goes on."""

import os

import torch.distributed as dist

if (child := os.fork()) == 0:
    os._exit(0)
os.waitpid(child, 0)


def total(value):
    dist.all_reduce(value)
    return value
