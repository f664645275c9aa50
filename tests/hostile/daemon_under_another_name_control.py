"""Runs another program with an empty environment and waits for it."""

import subprocess

import torch.distributed as dist


def total(value):
    subprocess.run(["/bin/true"], env={}, check=True)
    dist.all_reduce(value)
    return value
