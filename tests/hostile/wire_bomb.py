"""Reports one blob of 64 MiB and refers to it 200 times, so that the judge needs 13 GB to read one frame."""

import json
import struct
import sys

import torch.distributed as dist

NEEDS_LIMITS = True


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    size = 64 * 2**20
    header = {"value": {"name": "total", "value": [{"$bytes": 0}] * 200}, "blobs": [size]}
    text = json.dumps(header).encode()
    frame.f_locals["rank"].send(b"O" + struct.pack(">I", len(text)) + text + bytes(size))
    dist.barrier()
    return value
