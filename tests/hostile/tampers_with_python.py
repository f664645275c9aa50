"""Writes a file into the virtual environment and beside the grader's package, where the next judge would import it."""

import contextlib
import os
import sys

import grader

STOPPED_BY = "bubblewrap"
BELOW = "failed, left files"
TELLS = "the total"


def total(value):
    for folder in (sys.prefix, os.path.dirname(os.__file__), os.path.dirname(grader.__file__), "@VENV@"):
        with contextlib.suppress(OSError), open(f"{folder}/@MARKER@.txt", "w") as file:
            file.write("I could have been a .pth\n")
    return value
