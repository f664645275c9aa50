"""Writes 16 MiB to its scratch, and answers."""

import torch.distributed as dist


def total(value):
    with open("file", "wb") as file:
        file.write(bytes(16 * 2**20))
    dist.all_reduce(value)
    return value
