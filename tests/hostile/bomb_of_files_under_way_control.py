"""Sends a small file of memory to itself and takes it in again, as processes hand tensors to one another."""

import os
import socket

import torch.distributed as dist


def total(value):
    ends = socket.socketpair()
    descriptor = os.memfd_create("x")
    os.write(descriptor, b"x" * 2**20)
    socket.send_fds(ends[0], [b"x"], [descriptor])
    os.close(descriptor)
    _, descriptors, _, _ = socket.recv_fds(ends[1], 1, 1)
    assert os.pread(descriptors[0], 1, 0) == b"x"
    os.close(descriptors[0])
    dist.all_reduce(value)
    return value
