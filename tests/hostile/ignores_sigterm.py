"""Ignores every signal that can be ignored and computes for ever, with a child that does the same."""

import os
import signal

DEADLINE = 3
TELLS = "Still busy"


def total(value):
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    os.fork()
    while True:
        value = value + 1
