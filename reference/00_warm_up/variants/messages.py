"""Right in another way: no collective at all. Everything goes round a ring, by messages to the right neighbour."""

import pickle
from collections import deque

import torch
import torch.distributed as dist


def right_neighbour(rank, world_size):
    return 0 if rank == world_size - 1 else rank + 1


def pass_on(tensor, received):
    """Send to the right, receive from the left."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    sending = dist.isend(tensor.contiguous(), right_neighbour(rank, world_size))
    dist.recv(received, (rank - 1) % world_size)
    sending.wait()
    return received


def total(value):
    result = passing = value.clone().contiguous()
    for _ in range(dist.get_world_size() - 1):
        passing = pass_on(passing, torch.empty_like(passing))
        result = result + passing
    return result


def gather_in_order(value):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    data = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)
    gathered = {rank: value}
    for step in range(1, world_size):
        length = pass_on(torch.tensor([len(data)]), torch.empty(1, dtype=torch.int64))
        data = pass_on(data, torch.empty(int(length), dtype=torch.uint8))
        gathered[(rank - step) % world_size] = pickle.loads(data.numpy().tobytes())
    return [gathered[number] for number in range(world_size)]


def average(values):
    sums = dict(values)
    for others in gather_in_order(values)[: dist.get_rank()]:
        sums = {name: sums[name] + others[name] for name in sums}
    for others in gather_in_order(values)[dist.get_rank() + 1 :]:
        sums = {name: sums[name] + others[name] for name in sums}
    return {name: number / dist.get_world_size() for name, number in sums.items()}


def stuck(calls):
    """By playing it: whoever has a call waits in it; when all wait in the same, they go on."""
    waiting = [deque(names) for names in calls.values()]
    while any(waiting):
        heads = {names[0] if names else "nothing" for names in waiting}
        if len(heads) > 1:
            return True
        for names in waiting:
            names.popleft()
    return False
