"""Leaves by os._exit(0) in the call, before anything could be recorded."""

import os

TELLS = "os._exit(0)"


def total(value):
    os._exit(0)
