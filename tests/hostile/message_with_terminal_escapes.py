"""Raises and prints escape sequences that clear the screen, set its title and write a green full mark."""

TELLS = "RuntimeError was raised"
TEXT = "\x1b[2J\x1b[1;1H\x1b]0;owned\x07\x9b31m\r\x1b[32mScore 100/100\u202e\u2066"


def total(value):
    print(TEXT)
    raise RuntimeError(TEXT)
