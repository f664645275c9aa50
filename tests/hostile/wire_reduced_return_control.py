"""Broadcasts an object by pickle among its own ranks, which is what broadcast_object_list does."""

import torch.distributed as dist


def total(value):
    parts = [None, None]
    dist.all_gather_object(parts, value.tolist())
    return value.new_tensor(parts).sum(0)
