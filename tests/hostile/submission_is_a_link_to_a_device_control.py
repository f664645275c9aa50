"""Hands in a right file of a hundred kilobytes, most of it a comment."""

import torch.distributed as dist

HAND_IN = "folder"


def total(value):
    dist.all_reduce(value)
    return value
