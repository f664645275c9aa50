"""Wraps all_reduce so that it prints, and answers."""

import torch.distributed as dist

original = dist.all_reduce


def told(tensor):
    print("reducing", tuple(tensor.shape))
    original(tensor)


dist.all_reduce = told


def total(value):
    dist.all_reduce(value)
    return value
