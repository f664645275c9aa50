"""Announces a message of a gigabyte and begins to send it."""

import os
import struct
import sys

import torch.distributed as dist

TELLS = "MalformedMessage"


def total(value):
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    os.write(frame.f_locals["channel"].fileno(), struct.pack("!i", 2**30) + b"O" * 1000)
    dist.barrier()
    return value
