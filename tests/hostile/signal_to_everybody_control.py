"""Signals a process group of its own."""

import os
import signal
import subprocess

import torch.distributed as dist


def total(value):
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    dist.all_reduce(value)
    return value
