"""PyTorch's Flight Recorder as something that takes memory.

It keeps one or two kilobytes of each collective, until it is full and each replaces the oldest. Who measures what a
process keeps would count that as the student's, who may send many small messages where another sends one large one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

SHAPE = (0, 4242)
"""Of what is recorded to fill it: nobody sends that."""


def fill() -> None:
    """Leave no room in it: what is recorded from now on takes no more memory. Not collective: a rank sends nothing to
    itself, which takes some 20 µs an entry. All are begun before the last is waited for: each wait gives the core away,
    and on a busy machine it takes long to get it back. Where this torch has no gloo nothing is done."""
    with contextlib.suppress(AttributeError, TypeError, RuntimeError):
        alone = dist.ProcessGroupGloo(dist.HashStore(), 0, 1)  # type: ignore[call-arg,attr-defined]
        nothing = torch.empty(SHAPE)
        size = int(os.environ.get("TORCH_FR_BUFFER_SIZE", "0"))
        begun = [alone.allreduce([nothing]) for _ in range(size)]  # type: ignore[attr-defined]
        for last in begun[-1:]:
            last.wait()


def is_filler(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of a dump is there for that alone."""
    return entry.get("input_sizes") == [list(SHAPE)]
