"""Pickles and unpickles a value of its own."""

import pickle

import torch.distributed as dist


def total(value):
    value = pickle.loads(pickle.dumps(value))
    dist.all_reduce(value)
    return value
