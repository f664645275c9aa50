"""A process beside the host that ends it when the judge is gone: the host itself hears nothing while it imports.

Below bubblewrap only. Inside, the kernel ends the host and all with it as soon as its judge's thread has ended.
"""

from __future__ import annotations

import os
import select
import socket
import time
from pathlib import Path
from typing import NoReturn

from grader.kit import prctl
from grader.ranks.host.protocol import SCRATCH
from grader.ranks.watch import reaper
from grader.ranks.watch.folder import remove

GRACE = 0.3
"""Seconds in which a host that hears that its judge is gone ends its runs and itself."""
LOOK = 0.02
PULSE = 1000
"""Milliseconds after which a keeper looks whether its host is there, where the kernel does not end one with the other.
"""


def has_hung_up(judge: socket.socket) -> bool:
    """Whether the judge is gone, as one that was killed while this process came up. Nothing is read."""
    return bool(_hang_up(judge).poll(0))


def started(judge: socket.socket) -> int:
    """Start the keeper of this process, and give its id. To be called before there are threads."""
    host = os.getpid()
    if keeper := os.fork():
        return keeper
    prctl.die_with_parent()
    prctl.hide()  # it holds the host's connection to the judge, and ranks run beside it
    _keep(judge, host)


def _hang_up(judge: socket.socket) -> select.poll:
    poll = select.poll()
    poll.register(judge, 0)  # that the other end is closed is always told
    return poll


def _keep(judge: socket.socket, host: int) -> NoReturn:
    poll = _hang_up(judge)
    while not poll.poll(PULSE):
        _leave_after(host)
    until = time.monotonic() + GRACE
    while time.monotonic() < until:
        _leave_after(host)
        time.sleep(LOOK)
    reaper.end_below(host, spare=os.getpid())
    if Path.cwd().name.startswith(SCRATCH):
        remove(Path.cwd())
    reaper.kill(host)
    os._exit(0)


def _leave_after(host: int) -> None:
    if os.getppid() != host:
        os._exit(0)
