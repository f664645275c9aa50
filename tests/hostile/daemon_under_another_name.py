"""Leaves a daemon that runs another program, with an empty environment and the name of Python's resource tracker."""

import os

import torch.distributed as dist

TELLS = "the total"


def total(value):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sh", ["multiprocessing.resource_tracker", "-c", "sleep 600; : @MARKER@"], {})
        os._exit(0)
    dist.barrier()
    return value
