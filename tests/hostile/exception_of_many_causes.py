"""Raises an exception with ten thousand causes in a ring, each with a long name."""

TELLS = "was raised"


def total(value):
    first = last = ValueError("first")
    for number in range(10_000):
        following = type("E" * 1000, (Exception,), {})(number)
        last.__cause__, last = following, following
    last.__cause__ = first
    raise first
