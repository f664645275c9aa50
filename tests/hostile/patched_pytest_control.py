"""Imports pytest, catches its Skipped, and answers."""

import pytest
import torch.distributed as dist


def total(value):
    try:
        pytest.skip("for a moment")
    except pytest.skip.Exception:
        dist.all_reduce(value)
    return value
