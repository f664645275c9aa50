"""Closes a descriptor of its own."""

import os

import torch.distributed as dist


def total(value):
    os.close(os.open(os.devnull, os.O_RDONLY))
    dist.all_reduce(value)
    return value
