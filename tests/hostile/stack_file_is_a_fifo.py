"""Replaces the file that the supervisor reads stacks from by a FIFO, and answers no question."""

import contextlib
import os
import sys

DEADLINE = 3


def total(value):
    folder, _, name = os.getcwd().rpartition("/")
    stack = f"{folder}/{name.replace('rank', 'stack')}"
    with contextlib.suppress(OSError):
        os.unlink(stack)
        os.mkfifo(stack)
    sys.setswitchinterval(1e6)
    while True:
        pass
