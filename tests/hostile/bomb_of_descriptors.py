"""Opens descriptors until there are none, keeps them, and reports."""

import os

TELLS = "the total"


def total(value):
    kept = []
    try:
        while len(kept) < 100_000:
            kept.append(os.dup(0))
    except OSError:
        pass
    return value
