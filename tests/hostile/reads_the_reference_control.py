"""Reads its own file, and answers."""

import torch.distributed as dist


def total(value):
    with open(__file__) as file:
        assert "all_reduce" in file.read()
    dist.all_reduce(value)
    return value
