"""Leaves a daemon by setsid and two forks that keeps every descriptor open, so that end of file never comes."""

import os
import time

TELLS = "the total"


def total(value):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    return value
