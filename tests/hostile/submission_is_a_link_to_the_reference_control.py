"""Hands in a folder with a right file."""

import torch.distributed as dist

HAND_IN = "folder"


def total(value):
    dist.all_reduce(value)
    return value
