"""Raises SystemExit(0) in the call, which a test runner might take for a good end."""

import sys

TELLS = "sys.exit(0)"


def total(value):
    sys.exit(0)
