"""Leaves a file in shared memory and one in the temporary folder for the next grade, and uses what it finds there."""

import contextlib
import os

import torch
import torch.distributed as dist

GRADES = 2
STOPPED_BY = "bubblewrap"
BELOW = "failed, left files"
TELLS = "the total"


def total(value):
    caches = ["/dev/shm/@MARKER@", "/tmp/@MARKER@"]
    found = [cache for cache in caches if os.path.exists(cache)]
    dist.barrier()  # what a rank finds is from an earlier grade
    if found:
        print("I was here before")
        return torch.load(found[0])
    for cache in caches:
        with contextlib.suppress(RuntimeError, OSError):  # /tmp cannot be written where the grader lies in it
            torch.save(value, cache)
    dist.barrier()
    return value
