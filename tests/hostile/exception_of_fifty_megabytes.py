"""Raises an exception whose message has fifty million letters."""

TELLS = "RuntimeError was raised"


def total(value):
    raise RuntimeError("x" * 50_000_000)
