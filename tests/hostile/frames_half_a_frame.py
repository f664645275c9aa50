"""Writes half a frame to its channel and sleeps, so that the supervisor waits for the rest for ever."""

import os
import struct
import sys
import time

TELLS = "MalformedMessage"
DEADLINE = 3


def total(value):
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    os.write(frame.f_locals["channel"].fileno(), struct.pack("!i", 1000) + b"J")
    time.sleep(600)
