"""The folder of one run, as the supervisor lays it out inside the sandbox: code, shared, one folder a rank."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import marshal
import os
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from grader.model.run import PROBE

MAX_STACK = 1 << 20
UNCHECKED = 0b01
"""PEP 552: the file goes by the source's hash, and nobody holds it against the source."""


@functools.lru_cache(maxsize=16)
def compiled(source: bytes) -> bytes | None:
    """The probe as a .pyc file, so that it is compiled once and not in every rank. None where it cannot be: each rank
    then says why. Never for the student's file, which could take for ever."""
    try:
        code = compile(source, PROBE, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    head = importlib.util.MAGIC_NUMBER + struct.pack("<I", UNCHECKED) + importlib.util.source_hash(source)
    return head + marshal.dumps(code)


class RunFolder:
    """Made before any rank starts. Raises OSError where there is no room."""

    def __init__(self, path: Path, files: Mapping[str, bytes], world_size: int) -> None:
        self.path = path
        self.code, self.shared, self.temporary = path / "code", path / "shared", path / "tmp"
        self.rendezvous = self.shared / "rendezvous"
        for folder in (path, self.code, self.shared, self.temporary):
            folder.mkdir(mode=0o700)
        for name, content in files.items():
            (self.code / Path(name).name).write_bytes(content)
        if (source := files.get(PROBE)) and (code := compiled(source)):
            place = Path(importlib.util.cache_from_source(str(self.code / PROBE)))
            place.parent.mkdir(mode=0o700)
            place.write_bytes(code)
        for rank in range(world_size):
            (path / f"rank{rank}").mkdir()
        self._stacks = [self._held_open(path / f"stack{rank}") for rank in range(world_size)]

    @staticmethod
    def _held_open(path: Path) -> int:
        """A file for a rank's stack. It is read through this descriptor, whatever a student puts in its place."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)

    def stack(self, rank: int) -> str:
        """What faulthandler has written for a rank so far."""
        return os.pread(self._stacks[rank], MAX_STACK, 0).decode(errors="replace")

    def remove(self) -> None:
        """Delete it all, also what a student has made undeletable by its mode."""
        remove(self.path)


def remove(path: Path) -> None:
    """Delete a folder whatever is in it: folders nested by the thousand, or such that nobody may enter."""
    if path.is_symlink():
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path)
    if os.path.lexists(path):
        for words in (["chmod", "-R", "u+rwx", "--", str(path)], ["rm", "-rf", "--", str(path)]):
            with contextlib.suppress(OSError):
                subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
