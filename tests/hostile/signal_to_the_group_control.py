"""Ignores SIGTERM and sends it to its own process."""

import os
import signal

import torch.distributed as dist


def total(value):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGTERM)
    dist.all_reduce(value)
    return value
