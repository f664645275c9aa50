"""Forks a thousand processes on each rank that sleep, and each failure is tried again a few times."""

import os
import time

NEEDS_LIMITS = True
DEADLINE = 10


def total(value):
    failures = 0
    for _ in range(1000):
        try:
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
        except OSError:
            failures += 1
            if failures > 20:
                break
    return value
