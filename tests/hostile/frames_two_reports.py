"""Sends a second report of its input past Rank.record, with an input for which it knows the total.

The probe records each rank's input before this file is imported. If the last report counted, every rank could replace
its input by a number of the student's choice and return twice the value that follows from it.
"""

import sys

import torch

from grader.records import wire

TELLS = "twice"


def total(value):
    frame = sys._getframe()
    while "rank" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["rank"].send(b"O" + wire.encode({"name": "own", "value": 7}))
    generator = torch.Generator().manual_seed(7)
    return 2 * torch.randint(1 << 40, (4,), generator=generator).to(torch.float64)
