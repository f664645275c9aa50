"""Raises an exception whose __str__ never returns, so that describing it takes for ever."""

DEADLINE = 3


class Silent(Exception):
    def __str__(self):  # noqa: PLE0307
        while True:
            pass


def total(value):
    raise Silent
