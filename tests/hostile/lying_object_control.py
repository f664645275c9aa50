"""Compares its input with an object that is equal to everything, and answers."""

import torch.distributed as dist


class Yes:
    def __eq__(self, other):
        return True

    __hash__ = None


def total(value):
    assert Yes() == "anything"
    dist.all_reduce(value)
    return value
