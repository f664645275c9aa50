"""Answers questions that nobody asked, each a snapshot of a thousand threads, for as long as it is let."""

import json
import sys

TELLS = "Reached the limit on messages"


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    thread = {"main": False, "state": "busy", "wait": None, "stack": [], "rendezvous": None}
    message = b"J" + json.dumps({"snapshot": {"threads": [thread] * 1000}, "request": "0"}).encode()
    while True:
        frame.f_locals["rank"].send(message)
