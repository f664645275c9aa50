"""Clears what earlier runs have left in folders that are a session's own."""

from __future__ import annotations

import os
import re
from pathlib import Path

from grader.ranks.watch.folder import remove


def clear(folder: Path, mounted: frozenset[Path]) -> None:
    """Delete what is in a folder, but nothing that is mounted there, such as an environment that lies under /tmp."""
    for entry in os.scandir(folder):
        path = Path(entry.path)
        if any(place.is_relative_to(path) for place in mounted):
            if path not in mounted:
                clear(path, mounted)
        elif entry.is_dir(follow_symlinks=False):
            remove(path)
        else:
            path.unlink(missing_ok=True)


def mounted(table: Path = Path("/proc/self/mountinfo")) -> frozenset[Path]:
    """Where something is mounted in this namespace. proc(5): the fifth field, with white space in octal."""
    rows = table.read_bytes().splitlines()
    octal = re.compile(rb"\\([0-7]{3})")
    names = (octal.sub(lambda found: bytes([int(found[1], 8)]), row.split()[4]) for row in rows)
    return frozenset(Path(os.fsdecode(name)) for name in names)
