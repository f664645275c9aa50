"""Takes a descriptor out of itself by pidfd_getfd, where the system allows it."""

import ctypes
import os

import torch.distributed as dist

PIDFD_GETFD = 438


def total(value):
    ctypes.CDLL(None).syscall(PIDFD_GETFD, os.pidfd_open(os.getpid()), 1, 0)
    dist.all_reduce(value)
    return value
