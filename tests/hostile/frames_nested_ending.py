"""Claims an ending that is nested deeper than the wire allows, so that the supervisor cannot report."""

import sys

import torch.distributed as dist


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    deep = b"[" * 500 + b"]" * 500
    frame.f_locals["rank"].send(b'J{"ending": {"kind": "finished", "stack": ' + deep + b"}}")
    dist.barrier()
    return value
