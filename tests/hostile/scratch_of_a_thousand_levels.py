"""Nests three thousand folders in its scratch, so that removing them overflows a recursion."""

import os

TELLS = "the total"


def total(value):
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    return value
