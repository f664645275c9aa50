"""Makes a second group of all ranks and reduces in that."""

import torch.distributed as dist


def total(value):
    group = dist.new_group([0, 1])
    dist.all_reduce(value, group=group)
    return value
