"""Reports eight times ten million empty lists: 30 MB each on the way, and more than a gigabyte in the judge."""

import struct
import sys

import torch.distributed as dist

NEEDS_LIMITS = True


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    lists = b",".join([b"[]"] * 10_000_000)
    for number in range(8):
        header = b'{"value": {"name": "note %d", "value": [%s]}, "blobs": []}' % (number, lists)
        frame.f_locals["rank"].send(b"O" + struct.pack(">I", len(header)) + header)
    dist.barrier()
    return value
