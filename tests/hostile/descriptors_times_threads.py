"""Has thousands of descriptors open in a table of each of many threads, and the supervisor would look at all."""

import ctypes
import os
import threading
import time

TELLS = "descriptors: more than can be looked at"
DEADLINE = 30


def total(value):
    null = os.open("/dev/null", os.O_RDONLY)
    try:
        for _ in range(19_800):
            os.dup(null)
    except OSError:
        pass
    threading.stack_size(65536)
    for _ in range(20):
        threading.Thread(target=keep, daemon=True).start()
    time.sleep(1000)


def keep():
    """Take a table of the thread's own (close_range with CLOSE_RANGE_UNSHARE)."""
    ctypes.CDLL(None).syscall(436, ctypes.c_uint(1 << 20), ctypes.c_uint(1 << 20), ctypes.c_uint(2))
    time.sleep(1000)
