"""Processes that got away, for systems whose kernel hands no orphan to a subreaper: they are known by what they were
started with. A host's HOME is its scratch folder, and that of its ranks lies in it; a fork keeps what its parent was
started with. What was started with another HOME, and has left its parent, is not found."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil

from grader.kit import prctl
from grader.ranks.watch import reaper


def end_strays(scratch: Path) -> None:
    """End what is left of a session below this scratch folder, whoever its parent is now. Nothing to do on Linux."""
    if prctl.is_subreaper():
        return
    while found := list(strays(scratch)):
        reaper.end(found)


def strays(scratch: Path) -> Iterator[psutil.Process]:
    """Every process but this one that was started in the scratch folder's name."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            home = process.environ().get("HOME", "")
            living = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
            if living and home and Path(home).is_relative_to(scratch):
                yield process
