"""Rewrites its own submission and another student's on disk, and removes a file beside it."""

import os

STOPPED_BY = "bubblewrap"
BELOW = "failed, changed files"
TELLS = "FileNotFoundError"


def total(value):
    os.unlink("@FOLDER@/inbox/canary.txt")
    with open("@FOLDER@/inbox-of-another/total.py", "w") as file:
        file.write("raise SystemExit\n")
    return value
