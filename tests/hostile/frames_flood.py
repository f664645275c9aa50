"""Sends message upon message, so that the supervisor reads for ever and never looks at the clock."""

import os
import struct
import sys

TELLS = "MalformedMessage"
DEADLINE = 3


def total(value):
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    frames = (struct.pack("!i", 3) + b"J{}") * 10_000
    while True:
        os.write(frame.f_locals["channel"].fileno(), frames)
