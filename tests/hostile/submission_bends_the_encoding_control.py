# coding: latin-1
"""Names a codec of text in its coding line, and answers."""

import torch.distributed as dist


def total(value):
    dist.all_reduce(value)
    return value
