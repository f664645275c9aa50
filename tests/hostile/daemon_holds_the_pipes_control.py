"""Leaves a daemon behind and answers rightly: daemons are ended, and are no fault."""

import os
import time

import torch.distributed as dist


def total(value):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    dist.all_reduce(value)
    return value
