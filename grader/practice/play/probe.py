"""Runs in every rank of `run`: hands over to the student's file, as torchrun would or by its `main`."""

import os
import runpy
import sys
from typing import Any


def play(rank: Any) -> None:
    """Call main(rank, world_size), or run the file as a script; RANK and WORLD_SIZE are set as torchrun sets them."""
    place = {"RANK": rank.rank, "LOCAL_RANK": rank.rank, "WORLD_SIZE": rank.world_size}
    os.environ.update({name: str(value) for name, value in {**place, "LOCAL_WORLD_SIZE": rank.world_size}.items()})
    if rank.parameters["as_script"]:
        sys.argv = [str(rank.file)]
        runpy.run_path(str(rank.file), run_name="__main__")
    else:
        rank.student.main(rank.rank, rank.world_size)
