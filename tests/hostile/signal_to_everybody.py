"""Sends SIGKILL to every process that it may signal.

Outside of a namespace of its own it stays its hand and says so: it would end every process of the user.
"""

import os
import signal


def total(value):
    if os.getpid() < 1000 and len([name for name in os.listdir("/proc") if name.isdigit()]) < 20:
        os.kill(-1, signal.SIGKILL)
    raise RuntimeError("not here: it would end every process of the user")
