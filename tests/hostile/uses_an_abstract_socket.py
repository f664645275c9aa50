"""Connects to an abstract UNIX socket, which no file system guards, of a service outside."""

import socket

STOPPED_BY = "bubblewrap"
BELOW = "failed, reached the network"
TELLS = "OSError"


def total(value):
    with socket.socket(socket.AF_UNIX) as service:
        try:
            service.connect("\0@MARKER@")
        except OSError as error:
            raise OSError("no way out") from error
    return value
