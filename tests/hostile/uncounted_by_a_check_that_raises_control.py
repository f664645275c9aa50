"""Solves all of it, and encodes odd values for itself."""

import torch
import torch.distributed as dist

from grader.records import wire

EXERCISE_NAME = "92"


def total(value):
    if isinstance(value, str):
        wire.decode(wire.encode([b"bytes", float("nan"), torch.empty(0), {None: 1}]))
        raise LookupError
    dist.all_reduce(value)
    return value
