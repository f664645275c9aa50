"""Rewrites its own copy in the run's folder, which nobody reads again."""

import torch.distributed as dist


def total(value):
    dist.all_reduce(value)
    with open("total.py", "w") as file:
        file.write("# nothing\n")
    return value
