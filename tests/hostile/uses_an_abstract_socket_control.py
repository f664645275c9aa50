"""Talks to itself over a UNIX socket of its own, and answers."""

import socket

import torch.distributed as dist


def total(value):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("mine")
    dist.all_reduce(value)
    return value
