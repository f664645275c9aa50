"""Is nice itself, and stays on the cores that it has; then answers."""

import os

import torch.distributed as dist


def total(value):
    os.nice(1)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.sched_setscheduler(os.getpid(), os.SCHED_BATCH, os.sched_param(0))
    dist.all_reduce(value)
    return value
