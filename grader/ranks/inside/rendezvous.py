"""Where ranks meet: what a TCPStore and init_process_group were told, and patience for a server that is not up yet."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from grader.ranks.inside.sockets import Present

DISTRIBUTED = os.sep + os.path.join("torch", "distributed") + os.sep
ESTABLISHED = "01"
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
PATIENCE = 1.0
"""Seconds that a store's client waits for its server's port before torch's own way of trying begins."""
RENDEZVOUS = ("_create_c10d_store", "init_process_group")


def meeting(
    store: Any,
    host_name: str = "",
    port: int = 0,
    world_size: int | None = None,
    is_master: bool = False,
    *_: Any,
    **__: Any,
) -> dict[str, Any]:
    """Where a TCPStore that is being made meets the others, from the arguments of its constructor."""
    place = {"hostname": host_name, "port": port, "world_size": world_size or 0, "rank": 0 if is_master else -1}
    return {"operation": "the rendezvous", "meeting": place}


def patient(init: Callable[..., Any]) -> Callable[..., Any]:
    """Let a client wait for its server's port for a moment. torch's own client, refused once, sleeps for half a second
    and more, so that ranks which start together would often lose most of a run to that sleep."""

    @functools.wraps(init)
    def patient_init(store: Any, *args: Any, **kwargs: Any) -> None:
        place = meeting(store, *args, **kwargs)["meeting"]
        if place["rank"] != 0:
            _await_server(place["port"])
        init(store, *args, **kwargs)

    return patient_init


def _await_server(port: int) -> None:
    """Wait until the server has accepted a connection: the first is that of rank 0 itself. A client that comes between
    the opening of the port and that moment can lose its first message, and tries again only after five seconds."""
    until = time.monotonic() + PATIENCE
    with contextlib.closing(_Connected()) as connected:
        while not connected.has(port) and time.monotonic() < until:
            time.sleep(0.01)


class _Connected:
    """Which ports of this machine have accepted a connection, looked up without connecting: the kernel is asked, or its
    tables are read, which takes ten times as long."""

    def __init__(self) -> None:
        self._present: Present | None = None
        with contextlib.suppress(OSError, AttributeError):
            self._present = Present()

    def has(self, port: int) -> bool:
        """True also where nobody tells."""
        try:
            return port in (_told(self._present) if self._present else _tabled())
        except OSError:
            return True

    def close(self) -> None:
        if self._present:
            self._present.close()


def _told(present: Present) -> set[int]:
    return {one.local[1] for one in present.now() if one.inode and one.remote[1]}


def _tabled() -> set[int]:
    lines = [line for table in TABLES for line in Path(table).read_text().splitlines()[1:]]
    rows = (line.split() for line in lines)
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == ESTABLISHED and row[9] != "0"}


def meeting_of(frame: FrameType | None, posted: dict[str, Any] | None) -> dict[str, Any] | None:
    """Where a thread meets the others, if it is inside init_process_group: read from the arguments of torch's own
    functions. A rank that looks for a server which is not up yet sleeps and retries, so being asleep says nothing."""
    found: dict[str, Any] | None = posted.get("meeting") if posted else None
    while frame is not None:
        if DISTRIBUTED in frame.f_code.co_filename and frame.f_code.co_name in RENDEZVOUS:
            local = frame.f_locals
            here = {
                key: local[key]
                for key in ("hostname", "port", "rank", "world_size")
                if type(local.get(key)) in (int, str)
            }
            found = {**here, **(found or {})}
        frame = frame.f_back
    return found
