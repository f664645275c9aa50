"""Takes the write permission off a file of its scratch, and answers."""

import os

import torch.distributed as dist


def total(value):
    with open("locked", "w") as file:
        file.write("x")
    os.chmod("locked", 0o400)
    dist.all_reduce(value)
    return value
