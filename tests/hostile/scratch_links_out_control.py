"""Makes a link within its scratch, and answers."""

import os

import torch.distributed as dist


def total(value):
    os.symlink(".", "here")
    dist.all_reduce(value)
    return value
