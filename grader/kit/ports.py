"""Free ports that stay reserved. Standard library only."""

from __future__ import annotations

import contextlib
import socket


def bound_socket() -> socket.socket:
    """A socket that holds a free port of every address of this machine until it is closed.

    It is bound but never listens. Linux then gives the port to nobody else by itself, whichever address they ask for,
    yet who asks for this very port with SO_REUSEADDR, as torch's TCPStore does, gets it. Held at 127.0.0.1 alone it
    would be given away at 127.0.1.1 or at a network card's address, where gloo and NCCL listen.
    """
    with contextlib.suppress(OSError):  # no IPv6 here
        return _bound(socket.AF_INET6, "::")
    return _bound(socket.AF_INET, "0.0.0.0")


def _bound(family: socket.AddressFamily, address: str) -> socket.socket:
    holder = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((address, 0))
    except OSError:
        holder.close()
        raise
    return holder
