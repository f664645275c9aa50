"""Wraps the wire's encoder so that it counts its calls, and answers."""

import torch.distributed as dist

from grader.records import wire

original, calls = wire.encode, []
wire.encode = lambda value: calls.append(1) or original(value)


def total(value):
    dist.all_reduce(value)
    return value
