"""Rewrites the exercise's checks and manifest on disk, for the next student."""

STOPPED_BY = "bubblewrap"
BELOW = "failed, changed files"
TELLS = "FileNotFoundError"


def total(value):
    with open("@ROOT@/exercises/91_total/exercise.yaml", "a") as file:
        file.write("# tampered with\n")
    with open("@ROOT@/exercises/91_total/checks.py", "a") as file:
        file.write("# tampered with\n")
    return value
