"""Lowers its own limits, and answers."""

import os
import resource

import torch.distributed as dist


def total(value):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.prlimit(0, resource.RLIMIT_NOFILE, (min(200, hard), hard))
    resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0))
    dist.all_reduce(value)
    return value
