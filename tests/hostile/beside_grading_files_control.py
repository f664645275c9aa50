"""Hands in a folder with a README beside a right submission."""

import torch.distributed as dist

HAND_IN = "folder"
BESIDE = {"README.md": "# Mine\n"}


def total(value):
    dist.all_reduce(value)
    return value
