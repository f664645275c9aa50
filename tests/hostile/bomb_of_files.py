"""Writes up to 2 GiB to the scratch of each rank, in files of 64 MiB."""

NEEDS_LIMITS = True
TELLS = "Reached the limit on files"


def total(value):
    block = bytes(2**20)
    for number in range(32):
        with open(f"file{number}", "wb") as file:
            for _ in range(64):
                file.write(block)
    return value
