"""Reads what /proc says of its own process, and answers."""

import torch.distributed as dist


def total(value):
    with open("/proc/self/cmdline") as command, open("/proc/self/maps") as maps:
        assert command.read() and maps.read()
    dist.all_reduce(value)
    return value
