"""Blocking send and recv: ranks with an odd number, and so at least one, receive before they send."""

import torch
import torch.distributed as dist


def swap(outgoing, incoming, group, me, size):
    def send():
        dist.send(outgoing.contiguous(), group=group, group_dst=(me + 1) % size)

    def receive():
        dist.recv(incoming, group=group, group_src=(me + size - 1) % size)

    for action in (send, receive) if me % 2 == 0 else (receive, send):
        action()


def bounds(numel, size, chunk):
    """Chunks of nearly the same length: the first ones have one element more."""
    length, more = divmod(numel, size)
    start = chunk * length + min(chunk, more)
    return start, start + length + (chunk < more)


def ring_all_reduce(tensor, group=None):
    me, size = dist.get_rank(group), dist.get_world_size(group)
    if size == 1:
        return
    flat = tensor.reshape(-1).clone()

    def chunk(number):
        start, stop = bounds(flat.numel(), size, number % size)
        return flat[start:stop]

    for step in range(size - 1):
        received = torch.empty_like(chunk(me - step - 1))
        swap(chunk(me - step), received, group, me, size)
        chunk(me - step - 1).add_(received)
    for step in range(size - 1):
        received = torch.empty_like(chunk(me - step))
        swap(chunk(me - step + 1), received, group, me, size)
        chunk(me - step).copy_(received)
    tensor.copy_(flat.reshape(tensor.shape))
