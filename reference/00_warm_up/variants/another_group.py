"""Right in another way: a group of its own, an all-reduce in two halves, calls that are waited for later."""

import functools
import math
from itertools import pairwise

import torch
import torch.distributed as dist


@functools.cache
def everybody():
    """A further group of all ranks, made at the first call, which all ranks make together."""
    return dist.new_group(list(range(dist.get_world_size())))


def total(value):
    """The two halves of an all-reduce: each rank adds up one part, then all parts go to everybody."""
    world_size, numel = dist.get_world_size(), value.numel()
    parts = torch.zeros(-(-numel // world_size) * world_size, dtype=value.dtype, device=value.device)
    parts[:numel] = value.flatten()
    own = torch.empty_like(parts[: len(parts) // world_size])
    dist.reduce_scatter(own, list(parts.chunk(world_size)), group=everybody())
    whole = [torch.empty_like(own) for _ in range(world_size)]
    dist.all_gather(whole, own, group=everybody())
    return torch.cat(whole)[:numel].reshape(value.shape)


def gather_in_order(value):
    gathered = []
    for source in range(dist.get_world_size()):
        box = [value]
        dist.broadcast_object_list(box, src=source, group=everybody())
        gathered.extend(box)
    return gathered


def right_neighbour(rank, world_size):
    return divmod(rank + 1, world_size)[1]


def average(values):
    """All numbers under way at once, each scaled beforehand."""
    world_size, group = dist.get_world_size(), everybody()
    numbers = {name: torch.tensor([values[name] / world_size], dtype=torch.float64) for name in sorted(values)}
    works = [dist.all_reduce(number, group=group, async_op=True) for number in numbers.values()]
    for work in works:
        work.wait()
    return {name: math.fsum(number.tolist()) for name, number in numbers.items()}


def stuck(calls):
    """If each rank makes the same calls as the one before it, all make the same."""
    return any(left != right for left, right in pairwise(calls.values()))
