"""Keeps a value in builtins within one run, and answers."""

import builtins

import torch.distributed as dist

GRADES = 2


def total(value):
    assert not hasattr(builtins, "kept")
    builtins.kept = value
    dist.all_reduce(builtins.kept)
    return builtins.kept
