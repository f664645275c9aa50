"""Whether this machine has GPUs, asked in such a way that children of this process can still use them.

A process that has asked CUDA has forked children that cannot ("Cannot re-initialize CUDA in forked subprocess"), and
one that has asked NVML has children whose NCCL cannot ("nvmlInit_v2() failed: GPU access blocked by the operating
system"). torch.cuda.is_available() and torch.cuda.device_count() ask one or the other.
"""

from __future__ import annotations

import functools
import glob
import os
from collections.abc import Mapping

DEVICES = ("/dev/nvidia[0-9]*", "/dev/dxg")
"""GPUs as files: those of Linux, and the one of Linux inside Windows."""
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
"""What hides every GPU from a process."""


def possible() -> bool:
    """Whether a process may find GPUs here. Asks nobody."""
    return not hidden(os.environ) and any(map(glob.glob, DEVICES))


def hidden(environment: Mapping[str, str | None]) -> bool:
    """Whether this environment hides every GPU."""
    return all(environment.get(name) == value for name, value in HIDDEN.items())


@functools.cache
def count() -> int:
    """How many GPUs torch finds here. A child is asked, once for this process and all that are forked from it later."""
    if not possible():
        return 0
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            import torch

            os.write(writing, str(torch.cuda.device_count()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return int(told or 0)
