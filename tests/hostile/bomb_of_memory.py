"""Takes up to 6 GiB of memory on each rank, in steps of 256 MiB, and writes to all of it."""

NEEDS_LIMITS = True
TELLS = "Reached the limit on memory"


def total(value):
    kept = []
    for _ in range(24):
        kept.append(b"x" * (256 * 2**20))
    return value
