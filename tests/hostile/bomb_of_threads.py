"""Starts two thousand threads that sleep."""

import threading

NEEDS_LIMITS = True
TELLS = "Reached the limit on processes"
DEADLINE = 10


def total(value):
    threading.stack_size(64 * 1024)
    over = threading.Event()
    for _ in range(2000):
        threading.Thread(target=over.wait, daemon=True).start()
    over.wait()
