"""Opens a file of its scratch by way of /proc/self/cwd, and answers."""

import torch.distributed as dist


def total(value):
    with open("/proc/self/cwd/note", "w") as file:
        file.write("x")
    dist.all_reduce(value)
    return value
