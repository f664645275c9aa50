"""Asks for the rank's send function and does not use it."""

import sys

import torch.distributed as dist


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    assert callable(frame.f_locals["rank"].send)
    dist.all_reduce(value)
    return value
