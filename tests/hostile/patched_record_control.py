"""Wraps Rank.record so that it prints the name, and answers."""

import torch.distributed as dist

from grader.ranks.inside.rank import Rank

original = Rank.record


def told(self, name, value):
    print("recording", name)
    original(self, name, value)


Rank.record = told


def total(value):
    dist.all_reduce(value)
    return value
