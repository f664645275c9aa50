"""Chunks are index tensors: elements are taken from where they lie and put back there, whatever the strides."""

import itertools

import torch
import torch.distributed as dist


class Ring:
    def __init__(self, group):
        self.group, self.rank, self.size = group, dist.get_rank(group), dist.get_world_size(group)

    def rotate(self, chunk, like):
        """Pass a chunk on; the left neighbour's, of the size of `like`."""
        arriving = torch.empty(like.shape, dtype=like.dtype, device=like.device)
        pending = dist.irecv(arriving, group=self.group, group_src=(self.rank - 1) % self.size)
        dist.send(chunk.contiguous(), group=self.group, group_dst=(self.rank + 1) % self.size)
        pending.wait()
        return arriving

    def turns(self, first):
        """(what to send, what comes), by number of chunk, step by step."""
        order = [(first - step) % self.size for step in range(self.size)]
        return itertools.pairwise(order)


def index_of(tensor, size):
    """Index tensors of `size` nearly equal parts of the elements, counted along the dimensions."""
    return torch.arange(tensor.numel(), device=tensor.device).tensor_split(size)


def ring_all_reduce(tensor, group=None):
    ring = Ring(group)
    parts = [torch.unravel_index(part, tensor.shape) for part in index_of(tensor, ring.size)] if tensor.dim() else None
    values = [tensor[part] for part in parts] if parts else [tensor.view(1), *[tensor.new_empty(0)] * (ring.size - 1)]
    for sent, coming in ring.turns(ring.rank):
        values[coming] = ring.rotate(values[sent], values[coming]) + values[coming]
    for sent, coming in ring.turns(ring.rank + 1):
        values[coming] = ring.rotate(values[sent], values[coming])
    if not parts:
        tensor.fill_(values[0][0])
        return
    for part, value in zip(parts, values, strict=True):
        tensor[part] = value
