"""Makes a file of 100 MiB that is all hole, and answers."""

import torch.distributed as dist


def total(value):
    with open("file", "wb") as file:
        file.truncate(100 * 2**20)
    dist.all_reduce(value)
    return value
