"""Hands in a folder with a right file, and beside it a file that is no Python."""

import torch.distributed as dist

HAND_IN = "folder"
BESIDE = {".netrc": "password mine\n"}


def total(value):
    dist.all_reduce(value)
    return value
