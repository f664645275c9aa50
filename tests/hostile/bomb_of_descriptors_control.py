"""Opens a hundred descriptors and closes them, and answers."""

import os

import torch.distributed as dist


def total(value):
    for descriptor in [os.dup(0) for _ in range(100)]:
        os.close(descriptor)
    dist.all_reduce(value)
    return value
