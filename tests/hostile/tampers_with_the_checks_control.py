"""Writes a file called checks.py to its scratch, and answers."""

import torch.distributed as dist


def total(value):
    with open("checks.py", "w") as file:
        file.write("# mine\n")
    dist.all_reduce(value)
    return value
