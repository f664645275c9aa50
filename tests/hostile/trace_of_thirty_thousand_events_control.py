"""Sends a trace of three communications in a case that asks for none."""

import json
import sys

import torch.distributed as dist


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    event = {"operation": "send", "bytes": 8, "dtype": "int8", "group": [0], "start": 0.1}
    trace = {"communications": [event] * 3, "spans": [], "complete": True}
    frame.f_locals["rank"].send(b"J" + json.dumps({"trace": trace}).encode())
    dist.all_reduce(value)
    return value
