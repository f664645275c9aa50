"""Wraps json.dumps so that it counts its calls, and answers."""

import json

import torch.distributed as dist

original, calls = json.dumps, []
json.dumps = lambda *these, **those: calls.append(1) or original(*these, **those)


def total(value):
    dist.all_reduce(value)
    return value
