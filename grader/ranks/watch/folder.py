"""The folder of one run, as the supervisor lays it out inside the sandbox: code, shared, one folder a rank."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

MAX_STACK = 1 << 20


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
