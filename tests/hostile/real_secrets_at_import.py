"""Exercise 01: asks for its secret while it is imported and leaves it in a file for the other ranks."""

import sys
from pathlib import Path

EXERCISE_NAME = "01"
FILE = "process_group.py"
REAL = True
TELLS = "still being imported"

frame = sys._getframe()
while not hasattr(frame.f_locals.get("rank", frame.f_locals.get("self")), "seed"):
    frame = frame.f_back
asked = frame.f_locals.get("rank") or frame.f_locals["self"]
Path(asked.shared, f"told.{asked.rank}").write_text(str(asked.secret))


def setup_ddp(rank, world_size):
    raise NotImplementedError


def cleanup_ddp():
    raise NotImplementedError
