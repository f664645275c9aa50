"""Searches gc for its own input, and answers."""

import gc

import torch
import torch.distributed as dist


def total(value):
    assert any(thing is value for thing in gc.get_objects() if isinstance(thing, torch.Tensor)) or True
    dist.all_reduce(value)
    return value
