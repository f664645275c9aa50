"""Makes a FIFO in its scratch and reads what it writes to it."""

import os

import torch.distributed as dist


def total(value):
    os.mkfifo("pipe")
    end = os.open("pipe", os.O_RDWR)
    os.write(end, b"x")
    assert os.read(end, 1) == b"x"
    dist.all_reduce(value)
    return value
