"""Reports a list of a hundred thousand numbers, under a name that nobody asks for."""

import sys

import torch.distributed as dist


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["rank"].record("note", list(range(100_000)))
    dist.all_reduce(value)
    return value
