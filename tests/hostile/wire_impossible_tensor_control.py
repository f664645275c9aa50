"""Reports a tensor without elements of a possible shape, under a name that nobody asks for."""

import sys

import torch
import torch.distributed as dist


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["rank"].record("note", torch.empty(0, 1 << 20))
    dist.all_reduce(value)
    return value
