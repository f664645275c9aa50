"""Free ports on loopback that stay reserved. Standard library only."""

from __future__ import annotations

import socket


def bound_socket() -> socket.socket:
    """A socket that holds a free port of 127.0.0.1 until it is closed.

    It is bound but never listens. Linux then gives the port to nobody else by itself, yet who asks for this very port
    with SO_REUSEADDR, as torch's TCPStore does, gets it.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder
