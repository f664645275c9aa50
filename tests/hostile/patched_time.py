"""Stops the clocks of its process, so that no deadline ever passes, and computes for ever."""

import time

DEADLINE = 3
TELLS = "Still busy"

time.monotonic = time.time = time.perf_counter = lambda: 0.0
time.monotonic_ns = time.time_ns = time.perf_counter_ns = lambda: 0


def total(value):
    while True:
        value = value + 1
