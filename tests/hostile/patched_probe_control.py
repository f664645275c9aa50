"""Looks at the probe's module, and answers."""

import sys

import torch.distributed as dist


def total(value):
    assert sys.modules["probe"].value
    dist.all_reduce(value)
    return value
