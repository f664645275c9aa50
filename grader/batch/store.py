"""Files by their content: what a batch keeps of hand-ins, reports, runs and logs. A key is the SHA-256 of a file's
bytes with a suffix that says what it is, so the same content is kept once, and whoever writes it twice is right twice.

A file is written to a temporary name, synced and renamed before its key is told to anybody, so a key that is known
leads to a whole file, whatever killed the writer.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from grader import files

SYNCS = 16
"""Files that are synced at the same time: the disk then writes them in one go. 64 files took 35 ms, and 440 one by one.
"""
MANY = 64
"""With more files than this the whole disk is synced at once, which is sooner."""
QUICKLY = 4
"""gzip's level for what the driver itself compresses."""


class Store:
    """A folder of such files. `put` waits for nothing; `flush` does, and makes all that was put last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._staged: list[tuple[Path, Path]] = []
        self._syncing: ThreadPoolExecutor | None = None

    def put(self, content: bytes, suffix: str = "") -> str:
        """Have the content kept, and give its key, which holds once `flush` was called. Empty content has an empty
        key."""
        if not content:
            return ""
        key = f"{hashlib.sha256(content).hexdigest()}{suffix}"
        path = self.path(key)
        if not path.exists():
            self._partial(path).write_bytes(content)
        return key

    def take(self, other: Store, key: str) -> None:
        """Have what another store keeps under this key kept here as well; nothing where it has nothing there."""
        path, theirs = self.path(key), other.path(key)
        if not path.exists() and theirs.is_file():
            shutil.copyfile(theirs, self._partial(path))

    def put_compressed(self, content: bytes, suffix: str) -> str:
        """The same with the content compressed. The same content gives the same key."""
        return self.put(gzip.compress(content, QUICKLY, mtime=0), f"{suffix}.gz") if content else ""

    def flush(self) -> None:
        """Sync what was put since the last time, and give it its name. Raises OSError, as where the disk is full."""
        staged, self._staged = self._staged, []
        try:
            self._sync([partial for partial, _ in staged])
            for partial, path in staged:
                os.replace(partial, path)
            self._sync(sorted({path.parent for _, path in staged}))
        finally:
            for partial, _ in staged:
                partial.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove what was put and never flushed."""
        staged, self._staged = self._staged, []
        for partial, _ in staged:
            partial.unlink(missing_ok=True)

    def path(self, key: str) -> Path:
        return Path(self.place(key))

    def place(self, key: str) -> str:
        """The path as text, of which a class report asks for hundreds of thousands; empty for an empty key."""
        return f"{self._folder}/{key[:2]}/{key[2:]}" if key else ""

    def read(self, key: str) -> bytes:
        return self.path(key).read_bytes() if key else b""

    def _partial(self, path: Path) -> Path:
        """Another name, under which a file is written until it has its own."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = files.another_name(path)
        self._staged.append((partial, path))
        return partial

    def _sync(self, paths: Sequence[Path]) -> None:
        if len(paths) > MANY:
            os.sync()
            return
        if len(paths) > 1 and self._syncing is None:
            self._syncing = ThreadPoolExecutor(SYNCS, thread_name_prefix="sync")
        done = self._syncing.map(synced, paths) if self._syncing else map(synced, paths)
        for _ in done:
            pass


def synced(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
