"""Ignores SIGTERM and SIGINT, and answers."""

import signal

import torch.distributed as dist


def total(value):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    dist.all_reduce(value)
    return value
