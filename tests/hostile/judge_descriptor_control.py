"""Lists its descriptors and writes to a socket pair of its own."""

import os
import socket

import torch.distributed as dist


def total(value):
    assert os.listdir("/proc/self/fd")
    here, there = socket.socketpair()
    here.send(b"hello")
    assert there.recv(5) == b"hello"
    dist.all_reduce(value)
    return value
