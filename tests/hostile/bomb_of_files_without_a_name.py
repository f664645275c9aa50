"""Writes 512 MiB to files of memory, which have no name, are in no folder and mapped by nobody."""

import os
import time

NEEDS_LIMITS = True
TELLS = "Reached the limit on"


def total(value):
    for number in range(8):
        descriptor = os.memfd_create(str(number))
        for _ in range(64):
            os.write(descriptor, b"x" * 2**20)
    time.sleep(5)
    return value
