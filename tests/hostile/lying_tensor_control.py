"""Uses a subclass of Tensor inside and returns a plain tensor."""

import torch
import torch.distributed as dist


class Named(torch.Tensor):
    pass


def total(value):
    named = value.as_subclass(Named)
    plain = named.as_subclass(torch.Tensor)
    dist.all_reduce(plain)
    return plain
