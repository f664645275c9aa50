"""Where a batch runs: slots of one machine, or actors of Ray. Both start the same worker (`grader.batch.worker`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader.batch.seam import Engine
    from grader.grading.request import Machine

WORDS = "local, ray or ray=ADDRESS"


def engine_of(words: str, root: Path, machine: Machine, widest: int, slots: int | None = None) -> tuple[Engine, int]:
    """The engine that `words` name, and how many slots it is to have: so many as were asked for, or as there is room
    for where the widest case has that many ranks. Raises UsageError, before anything is started on this machine."""
    from grader.batch.slots.local import LocalEngine, slots_for  # not earlier: an actor of Ray imports this package
    from grader.batch.slots.ray import RayEngine
    from grader.model.errors import UsageError

    name, _, address = words.partition("=")
    if words == "local":
        return LocalEngine(root, machine), slots or slots_for(machine.cores, widest)
    if name != "ray" or (not address and words != "ray"):
        raise UsageError(f"There is no engine '{words}'; --engine takes {WORDS}.")
    engine = RayEngine(root, machine, widest, address)
    room = engine.room()
    if room and slots and slots > room:
        raise UsageError(f"The Ray cluster has room for {room} slots of {widest} CPUs; --slots {slots} is more.")
    return engine, slots or room or slots_for(machine.cores, widest)
