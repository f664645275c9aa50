"""Asks which namespaces it is in, and answers."""

import os

import torch.distributed as dist


def total(value):
    assert os.readlink("/proc/self/ns/pid")
    dist.all_reduce(value)
    return value
