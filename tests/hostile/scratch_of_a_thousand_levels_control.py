"""Nests twenty folders in its scratch, and answers."""

import os

import torch.distributed as dist


def total(value):
    os.makedirs("/".join(["d"] * 20))
    dist.all_reduce(value)
    return value
