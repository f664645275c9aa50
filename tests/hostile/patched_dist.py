"""Replaces all_reduce by a function that does nothing and says that it has."""

import torch.distributed as dist

TELLS = "the total"

dist.all_reduce = dist.distributed_c10d.all_reduce = lambda *_, **__: None


def total(value):
    dist.all_reduce(value)
    return value
