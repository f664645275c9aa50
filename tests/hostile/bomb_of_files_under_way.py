"""Sends 512 MiB of files of memory to itself and closes them: they lie in a socket, and no process has them."""

import os
import socket
import time

NEEDS_LIMITS = True
TELLS = "Reached the limit on"


def total(value):
    ends = socket.socketpair()
    for number in range(8):
        descriptor = os.memfd_create(str(number))
        for _ in range(64):
            os.write(descriptor, b"x" * 2**20)
        socket.send_fds(ends[0], [b"x"], [descriptor])
        os.close(descriptor)
    time.sleep(5)
    return value
