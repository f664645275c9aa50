"""Right in another way: each call in a thread of its own, in a group that is made for it and left at once."""

import functools
import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
import torch.distributed as dist


def in_a_thread(function):
    """The same function, called in another thread that is waited for."""

    @functools.wraps(function)
    def called(*args):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(function, *args).result()

    return called


@contextmanager
def group():
    """A further group of all ranks."""
    made = dist.new_group()
    try:
        yield made
    finally:
        dist.destroy_process_group(made)


@in_a_thread
def total(value):
    with group() as everybody:
        added = value.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(added, group=everybody, async_op=True).wait()
        return added


@in_a_thread
def gather_in_order(value):
    with group() as everybody:
        gathered = [None] * dist.get_world_size(everybody)
        dist.all_gather_object(gathered, value, group=everybody)
        return gathered


def right_neighbour(rank, world_size):
    return 0 if rank == world_size - 1 else rank + 1


def average(values):
    everybody = gather_in_order(values)
    return {name: math.fsum(own[name] for own in everybody) / len(everybody) for name in values}


def stuck(calls):
    return len({tuple(names) for names in calls.values()}) > 1
