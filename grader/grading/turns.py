"""Turns between the graders of one machine, for runs that would disturb one another: those that share its network and
meet at a port of their own choice."""

from __future__ import annotations

import contextlib
import getpass
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

PATIENCE = 60.0
"""Seconds after which a turn is taken though somebody else still has it: below bubblewrap a rank might hold it too."""


@contextlib.contextmanager
def turn(patience: float = PATIENCE) -> Iterator[None]:
    """Of all graders of this user on this machine only one at a time is in the block."""
    user = getattr(os, "getuid", getpass.getuser)()
    path = Path(tempfile.gettempdir()) / f"ranklings-{user}.turn"
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, Timeout):
            stack.enter_context(FileLock(path, timeout=patience, mode=0o600))
        yield
