"""Writes a journal of its own in its folder and reads it, and answers."""

from pathlib import Path

import torch.distributed as dist


def total(value):
    Path("journal.jsonl").write_text("{}\n")
    assert Path("journal.jsonl").read_text()
    dist.all_reduce(value)
    return value
