"""Prints up to 1 GiB."""

import os

NEEDS_LIMITS = True
TELLS = "Reached the limit on output"


def total(value):
    line = b"x" * 65535 + b"\n"
    for _ in range(16384):
        os.write(1, line)
    return value
