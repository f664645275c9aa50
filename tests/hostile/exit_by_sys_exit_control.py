"""Raises SystemExit(0) and catches it."""

import sys

import torch.distributed as dist


def total(value):
    try:
        sys.exit(0)
    except SystemExit:
        dist.all_reduce(value)
    return value
