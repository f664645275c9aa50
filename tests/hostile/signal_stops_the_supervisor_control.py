"""Stops a child of its own and continues it."""

import os
import signal
import subprocess

import torch.distributed as dist


def total(value):
    child = subprocess.Popen(["sleep", "0"])
    os.kill(child.pid, signal.SIGSTOP)
    os.kill(child.pid, signal.SIGCONT)
    child.wait()
    dist.all_reduce(value)
    return value
