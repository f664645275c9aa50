"""Reads the probe, which lies beside its file for every rank to see, and answers."""

from pathlib import Path

import torch.distributed as dist


def total(value):
    assert "own" in Path(__file__).with_name("probe.py").read_text()
    dist.all_reduce(value)
    return value
