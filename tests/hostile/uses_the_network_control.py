"""Talks to itself over loopback, and answers."""

import socket

import torch.distributed as dist


def total(value):
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        server.accept()[0].close()
        here.close()
    dist.all_reduce(value)
    return value
