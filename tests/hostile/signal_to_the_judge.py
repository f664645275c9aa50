"""Kills the judge.

Below bubblewrap any program of the same user can do that; the test does it to a judge of its own.
"""

import os
import signal

ALONE = True
STOPPED_BY = "bubblewrap"
BELOW = "killed the judge"
TELLS = "no such judge"


def total(value):
    try:
        os.kill(int("@JUDGE@"), signal.SIGKILL)
    except ProcessLookupError:
        print("no such judge")
    return value
