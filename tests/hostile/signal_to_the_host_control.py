"""Reads who started its parent, and answers."""

import os

import torch.distributed as dist


def total(value):
    with open(f"/proc/{os.getppid()}/stat") as file:
        assert int(file.read().rpartition(")")[2].split()[1]) >= 0
    dist.all_reduce(value)
    return value
