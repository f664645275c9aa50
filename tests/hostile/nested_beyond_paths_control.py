"""Nests folders that a path leads to, and removes them."""

import os
import shutil

import torch.distributed as dist


def total(value):
    path = os.path.join(*["x" * 100] * 8)
    os.makedirs(path)
    with open(os.path.join(path, "kept"), "wb") as file:
        file.write(b"x" * 2**20)
    dist.all_reduce(value)
    shutil.rmtree("x" * 100)
    return value
