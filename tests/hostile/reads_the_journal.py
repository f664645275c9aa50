"""Reads the journal of the grade, where results might stand, and prints it."""

STOPPED_BY = "bubblewrap"
BELOW = "failed, leaked a secret"
TELLS = "FileNotFoundError"


def total(value):
    with open("@ROOT@/journal.jsonl") as file:
        print(file.read())
    return value
