"""Reports ten thousand empty tables and a tensor of sixteen megabytes, under names that nobody asks for."""

import sys

import torch
import torch.distributed as dist


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["rank"].record("tables", [{} for _ in range(10_000)])
    frame.f_locals["rank"].record("tensor", torch.zeros(16 * 2**20, dtype=torch.uint8))
    dist.all_reduce(value)
    return value
