"""Keeps its total in shared memory that ends with the process, and answers."""

import mmap

import torch
import torch.distributed as dist

GRADES = 2


def total(value):
    dist.all_reduce(value)
    kept = torch.frombuffer(mmap.mmap(-1, 32), dtype=torch.float64)
    kept.copy_(value)
    return kept.clone()
