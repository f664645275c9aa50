"""Reports the same ten bytes twice, under a name that nobody asks for."""

import sys

import torch.distributed as dist


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["rank"].record("note", [b"0123456789"] * 2)
    dist.all_reduce(value)
    return value
