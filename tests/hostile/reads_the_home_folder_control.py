"""Writes a file to the home folder that it is given, and answers."""

from pathlib import Path

import torch.distributed as dist


def total(value):
    (Path.home() / ".note").write_text("mine")
    dist.all_reduce(value)
    return value
