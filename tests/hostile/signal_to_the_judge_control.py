"""Sends itself a signal that it handles, and answers."""

import os
import signal

import torch.distributed as dist


def total(value):
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    dist.all_reduce(value)
    return value
