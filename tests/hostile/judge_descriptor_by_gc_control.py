"""Counts the objects in memory, and answers."""

import gc

import torch.distributed as dist


def total(value):
    assert gc.get_objects()
    dist.all_reduce(value)
    return value
