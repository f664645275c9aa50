"""Walks the frames and counts them, and answers."""

import sys

import torch.distributed as dist


def total(value):
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    dist.all_reduce(value)
    return value
