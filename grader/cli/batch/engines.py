"""The engine that `--engine` names, and how many slots it gets."""

from __future__ import annotations

from pathlib import Path

from grader.batch.seam import Engine
from grader.grading.request import Machine
from grader.model.errors import UsageError


def engine_of(text: str, root: Path, machine: Machine, widest: int) -> Engine:
    """`local`, or `ray` with the address of a cluster or without. `widest` are the ranks of the widest case."""
    kind, _, address = text.partition("=")
    if text == "local":
        from grader.batch.slots.local import LocalEngine

        return LocalEngine(root, machine)
    if kind != "ray" or text == "ray=":
        raise UsageError(f"--engine {text} is none; say local, ray, or ray=ADDRESS.")
    return _ray(root, machine, widest, address)


def _ray(root: Path, machine: Machine, widest: int, address: str) -> Engine:
    """Ray's ports run the code of whoever reaches them, so what ranks do must be kept in."""
    if machine.sandbox == "off":
        raise UsageError("--engine ray grades under bubblewrap alone; leave --sandbox off away (docs/security.md).")
    from grader.batch.slots.ray import RayEngine

    return RayEngine(root, machine, widest, address)


def slots_for(engine: Engine, asked: int | None, machine: Machine, widest: int) -> int:
    """How many slots: as asked for, or what the cluster has room for, or what this machine takes."""
    from grader.batch.slots.local import slots_for as local_slots

    if asked:
        return asked
    room = getattr(engine, "room", None)
    return (room() if room else 0) or local_slots(machine.cores, widest)
