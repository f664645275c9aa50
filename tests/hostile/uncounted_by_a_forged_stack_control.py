"""Solves all of it, and writes a stack into a file of its own."""

import faulthandler

import torch.distributed as dist

EXERCISE_NAME = "92"


def total(value):
    if isinstance(value, str):
        with open("stack", "w") as file:
            faulthandler.dump_traceback(file)
        raise LookupError
    dist.all_reduce(value)
    return value
