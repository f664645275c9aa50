"""Raises in the call, and has an atexit handler that sets the exit code to 0."""

import atexit
import os

TELLS = "RuntimeError was raised"

atexit.register(os._exit, 0)


def total(value):
    raise RuntimeError("nobody looks at this")
