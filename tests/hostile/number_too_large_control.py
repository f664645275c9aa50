"""Computes with an integer of four thousand digits, and answers."""

import torch.distributed as dist


def total(value):
    assert 10**4000 % 7
    dist.all_reduce(value)
    return value
