"""Runs the solution that another student has handed in."""

STOPPED_BY = "bubblewrap"
BELOW = "passed"
TELLS = "FileNotFoundError"


def total(value):
    solution = {}
    with open("@FOLDER@/inbox-of-another/total.py") as file:
        exec(file.read(), solution)
    return solution["total"](value)
