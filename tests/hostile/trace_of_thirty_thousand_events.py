"""Sends a trace of thirty thousand communications, so that the pages which draw them are never done."""

import json
import sys

TELLS = "a trace of 30000 events"


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    event = {"operation": "send", "bytes": 8, "dtype": "int8", "group": [0], "start": 0.1}
    trace = {"communications": [event] * 30_000, "spans": [], "complete": True}
    frame.f_locals["rank"].send(b"J" + json.dumps({"trace": trace}).encode())
    return value
