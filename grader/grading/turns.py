"""Turns between the graders of one machine, for runs that would disturb one another: those that share its network and
meet at a port of their own choice."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

PATIENCE = 60.0
"""Seconds after which a turn is taken though somebody else still has it: below bubblewrap a rank might hold it too."""
LOOK = 0.05


@contextlib.contextmanager
def turn(patience: float = PATIENCE) -> Iterator[None]:
    """Of all graders of this user on this machine only one at a time is in the block."""
    with contextlib.ExitStack() as stack:
        if fcntl is not None:
            with contextlib.suppress(OSError):
                _take(stack, patience)
        yield


def _take(stack: contextlib.ExitStack, patience: float) -> None:
    path = Path(tempfile.gettempdir()) / f"ranklings-{os.getuid()}.turn"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    until = time.monotonic() + patience
    while time.monotonic() < until:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(LOOK)
