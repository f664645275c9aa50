"""What a host says when it has come up, and what is told of one that has not."""

from __future__ import annotations

import json
import socket
import struct
from typing import IO, Any

from grader.model.errors import NoRankStarted
from grader.ranks import sandbox
from grader.ranks.host import protocol

START_SECONDS = 180
"""How long the host may take to import torch on a slow machine."""


def proved(host: socket.socket, log: IO[bytes], level: str) -> dict[str, Any]:
    """Wait until the host has come up. What it has found out: whether each run is `apart` in a network of its own; the
    modules that the judge finds and it does not, `missing`. Raises NoRankStarted where it does not come up, or where
    the isolation of this level does not hold."""
    host.settimeout(START_SECONDS)
    try:
        found = _said(host)
    except TimeoutError:
        raise NoRankStarted(
            f"The process that ranks start from did not come up within {START_SECONDS} s: this machine is very "
            "busy, or its disk very slow. Try again when it is not."
        ) from None
    except (OSError, ValueError):
        log.seek(0)
        raise NoRankStarted(no_start(log.read().decode(errors="replace"), level)) from None
    if found["breaches"]:
        raise NoRankStarted(
            f"The isolation that this machine gives does not hold ({level}): {'; '.join(found['breaches'])}. "
            "With --sandbox off the grader goes on without bubblewrap."
        )
    host.settimeout(None)
    return found


def _said(host: socket.socket) -> dict[str, Any]:
    """The answer of a host that is ready, in which `breaches` are what is possible that should not be, in words. Raises
    OSError or ValueError where it is none."""
    if host.recv(1) != protocol.READY:
        raise ValueError("the host has ended")
    (length,) = struct.unpack(">I", _exactly(host, 4))
    return dict(json.loads(_exactly(host, length)))


def _exactly(host: socket.socket, count: int) -> bytes:
    data = host.recv(count, socket.MSG_WAITALL)
    if len(data) != count:
        raise ValueError("the host has ended in the middle of its answer")
    return data


def no_start(log: str, level: str) -> str:
    """Why a host did not come up, by what it said."""
    said = log.strip().splitlines() or ["it said nothing"]
    text = f"The process that ranks start from did not come up: {said[-1]}"
    if "No module named" in said[-1] and level == sandbox.BUBBLEWRAP:
        text += ". Inside bubblewrap it is not seen; install it beside torch, or grade with --sandbox off."
    return text
