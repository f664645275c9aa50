"""Makes a package in its scratch and imports from it, and answers."""

import os
import sys

import torch.distributed as dist


def total(value):
    os.makedirs("mine")
    with open("mine/__init__.py", "w") as file:
        file.write("ready = True\n")
    sys.path.append(os.getcwd())
    from mine import ready

    dist.all_reduce(value)
    return value if ready else None
