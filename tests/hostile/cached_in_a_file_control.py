"""Keeps the total in a file of its scratch and reads it back in the same run."""

import torch
import torch.distributed as dist

GRADES = 2


def total(value):
    dist.all_reduce(value)
    torch.save(value, "total.pt")
    return torch.load("total.pt")
