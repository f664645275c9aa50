"""Has thousands of descriptors open in each of many threads, and the supervisor would go through all their tables."""

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
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    time.sleep(1000)
