"""Kills its whole process group, the supervisor in it."""

import os
import signal


def total(value):
    os.killpg(0, signal.SIGKILL)
