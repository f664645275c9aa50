"""Claims to have finished and leaves at once, without a total."""

import os
import sys

TELLS = "'total'"


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["rank"].send(b'J{"ending": {"kind": "finished"}}')
    os._exit(0)
