"""Prints text with colons in it, and answers."""

import torch.distributed as dist


def total(value):
    print("torch::Tensor is C++; a ## is Markdown")
    dist.all_reduce(value)
    return value
