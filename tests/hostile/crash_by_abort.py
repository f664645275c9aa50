"""Aborts, as a failed assertion in C++ does."""

import os

TELLS = "SIGABRT"


def total(value):
    os.abort()
