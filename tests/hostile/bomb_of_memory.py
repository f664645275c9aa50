"""Takes up to 6 GiB of memory on each rank, in steps of 256 MiB, and writes to all of it."""

NEEDS_LIMITS = True
DEADLINE = 90
"""Seconds: a machine with much else to do takes a while to fill so much memory."""
TELLS = "Reached the limit on memory"


def total(value):
    kept = []
    for _ in range(24):
        kept.append(b"x" * (256 * 2**20))
    return value
