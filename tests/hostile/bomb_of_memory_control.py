"""Takes 64 MiB of memory, and answers."""

import torch.distributed as dist


def total(value):
    kept = b"x" * (64 * 2**20)
    dist.all_reduce(value)
    return value if kept else None
