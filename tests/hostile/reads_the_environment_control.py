"""Reads where the ranks meet from the environment, and answers."""

import os

import torch.distributed as dist


def total(value):
    assert os.environ["MASTER_ADDR"]
    dist.all_reduce(value)
    return value
