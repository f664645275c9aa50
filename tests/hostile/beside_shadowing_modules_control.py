"""Hands in a folder with notes beside a right submission."""

import torch.distributed as dist

HAND_IN = "folder"
BESIDE = {"notes.txt": "all_reduce sums", "helper.py": "x = 1"}


def total(value):
    dist.all_reduce(value)
    return value
