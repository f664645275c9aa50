"""Asks whether its parent is alive by signal 0, where that is allowed, and answers."""

import contextlib
import os

import torch.distributed as dist


def total(value):
    with contextlib.suppress(PermissionError):
        os.kill(os.getppid(), 0)
    dist.all_reduce(value)
    return value
