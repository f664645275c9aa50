"""Writes one file of up to 2 GiB on each rank."""

NEEDS_LIMITS = True
TELLS = "Reached the limit on the size of a file"


def total(value):
    block = bytes(2**20)
    with open("file", "wb") as file:
        for _ in range(2048):
            file.write(block)
    return value
