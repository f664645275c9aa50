"""Writes a module into its scratch and imports it, and answers."""

import pathlib
import sys

import torch.distributed as dist


def total(value):
    pathlib.Path("mine.py").write_text("ready = True\n")
    sys.path.insert(0, str(pathlib.Path.cwd()))
    import mine

    assert mine.ready
    dist.all_reduce(value)
    return value
