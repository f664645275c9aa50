"""Opens its own memory for reading, and answers."""

import torch.distributed as dist


def total(value):
    with open("/proc/self/mem", "rb", 0):
        dist.all_reduce(value)
    return value
