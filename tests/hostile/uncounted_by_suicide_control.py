"""Solves all of it; a child process kills itself by SIGKILL."""

import os
import signal

import torch.distributed as dist

EXERCISE_NAME = "92"


def total(value):
    if (child := os.fork()) == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    if isinstance(value, str):
        raise LookupError
    dist.all_reduce(value)
    return value
