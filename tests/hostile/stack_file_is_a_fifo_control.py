"""Lists the folder that its scratch lies in, and answers."""

import os

import torch.distributed as dist


def total(value):
    assert os.listdir("..")
    dist.all_reduce(value)
    return value
