"""Closes a pipe of its own, and stays for a while."""

import os
import time

import torch.distributed as dist


def total(value):
    for number in os.pipe():
        os.close(number)
    time.sleep(1)
    dist.all_reduce(value)
    return value
