"""A network of a run's own: a loopback that it shares with no other run, so that every port is free. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

from grader.kit import prctl
from grader.ranks.inside.seccomp import CLONE_NEWNET

SIOCSIFFLAGS, IFF_UP = 0x8914, 1
CAPABILITY_VERSION = 0x20080522
TABLE = Path("/proc/sys/net/ipv4/tcp_child_ehash_entries")
"""How many places a network's own table of connections has that is made from here, since Linux 6.1; 0: it has none."""
PLACES = 4096
"""A fifth of what the witness counts at most (`witness.MAX_SOCKETS`), so that places hold a few each even then."""


def let_tables_be_own() -> bool:
    """Let each network that is made from here have a table of its own. The kernel reads that in 0.06 ms of processor,
    the machine's in 2.5, some ten times a run. Whether that is so; without it all goes as well."""
    with contextlib.suppress(OSError):
        TABLE.write_text(str(PLACES))
        return True
    return False


def move_to_own() -> None:
    """Leave the network that this process shares with the host for a new one, which only its children will have, and
    give up for good the capabilities that this takes. Raises OSError where they are missing."""
    libc = prctl.libc()
    _require(libc.unshare(CLONE_NEWNET))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
    header, none = struct.pack("Ii", CAPABILITY_VERSION, 0), bytes(24)  # effective, permitted, inheritable
    _require(libc.capset(header, none))


def _require(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
