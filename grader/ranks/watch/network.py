"""A network of a run's own: a loopback that it shares with no other run, so that every port is free. Linux only."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

from grader.ranks.inside import prctl
from grader.ranks.inside.seccomp import CLONE_NEWNET

SIOCSIFFLAGS, IFF_UP = 0x8914, 1
CAPABILITY_VERSION = 0x20080522


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
