"""Writes 16 MiB to a file of memory, reads them back, and answers."""

import os
import time

import torch.distributed as dist


def total(value):
    descriptor = os.memfd_create("sixteen")
    os.write(descriptor, b"x" * 2**24)
    time.sleep(1.5)
    assert os.pread(descriptor, 2, 2**24 - 2) == b"xx"
    dist.all_reduce(value)
    return value
