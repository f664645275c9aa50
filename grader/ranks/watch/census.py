"""Counts what a run uses of this machine, and says which limit it has passed. Runs in the supervisor.

The kernel enforces what it can by itself (`inside.limits`); a census sees what those miss, such as a
thousand processes of root, or many files of which each is small.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from grader.model import MIB, Limits

EVERY, DISK_EVERY, SHARES_EVERY = 0.25, 1.0, 2.0
"""Seconds between two counts of processes and memory, of files, and of memory with what is shared told apart."""
MAX_FILES = 50_000
"""More files than this are never counted out; they take inodes even if they are empty."""


class Excess(NamedTuple):
    """A limit that was passed, in words, and the ranks that did it (none: nobody knows which)."""

    text: str
    ranks: frozenset[int]


class Census:
    """One run. `folder` holds its files; `base` is the anonymous memory in bytes that each rank begins with."""

    def __init__(self, limits: Limits, folder: Path, base: int) -> None:
        self._limits, self._folder, self._base = limits, folder, base
        self._counted = self._measured = time.monotonic()
        self._shared_again = 0.0

    def excess(self, pids: Mapping[int, int]) -> Excess | None:
        """The limit that the run has passed, if any. `pids` maps ranks to processes. Cheap when called often."""
        now = time.monotonic()
        if now - self._counted >= EVERY:
            self._counted = now
            if found := self._processes(pids):
                return found
        if now - self._measured >= DISK_EVERY:
            self._measured = now
            return self._disk()
        return None

    def _processes(self, pids: Mapping[int, int]) -> Excess | None:
        threads: dict[int | None, int] = {}
        memory: dict[int | None, int] = {}
        members = _members(pids)
        if len(members) > self._limits.processes:  # a fork bomb is not measured, for it grows meanwhile
            owners = [rank for rank, _ in members]
            text = f"processes: {len(members)} processes, at most {self._limits.processes}"
            return Excess(text, _most({rank: owners.count(rank) for rank in set(owners)}))
        for rank, process in members:
            with contextlib.suppress(psutil.Error), process.oneshot():
                threads[rank] = threads.get(rank, 0) + process.num_threads()
                memory[rank] = memory.get(rank, 0) + _anonymous(process) - (self._base if process.pid in pids else 0)
        if (count := sum(threads.values())) > self._limits.processes:
            text = f"processes: {count} processes and threads, at most {self._limits.processes}"
            return Excess(text, _most(threads))
        if sum(memory.values()) > self._limits.memory * max(1, len(pids)):
            if time.monotonic() < self._shared_again:
                return None
            memory = _shares(pids)  # forks share most of theirs, which takes a longer look
            self._shared_again = time.monotonic() + SHARES_EVERY
        if sum(memory.values()) > self._limits.memory * max(1, len(pids)):
            text = f"memory: {sum(memory.values()) // MIB} MiB, at most {self._limits.memory // MIB} MiB for each rank"
            return Excess(text, _most(memory))
        return None

    def _disk(self) -> Excess | None:
        size = 0
        for count, entry in enumerate(_files(self._folder), 1):
            with contextlib.suppress(OSError):
                size += entry.stat(follow_symlinks=False).st_blocks * 512
            if size > self._limits.disk or count > MAX_FILES:
                seen = f"more than {MAX_FILES} files" if count > MAX_FILES else f"{size // MIB} MiB of files or more"
                return Excess(f"disk: {seen}, at most {self._limits.disk // MIB} MiB", frozenset())
        return None


def anonymous_memory() -> int:
    """Bytes of this process that no file stands behind."""
    return _anonymous(psutil.Process())


def _anonymous(process: psutil.Process) -> int:
    memory: Any = process.memory_info()
    return int(memory.rss - getattr(memory, "shared", 0))


def _shares(pids: Mapping[int, int]) -> dict[int | None, int]:
    """Bytes of memory by rank, where of a page that n processes share each has a part of n."""
    found: dict[int | None, int] = {}
    for rank, process in _members(pids):
        with contextlib.suppress(psutil.Error):
            memory: Any = process.memory_full_info()
            found[rank] = found.get(rank, 0) + int(getattr(memory, "pss", memory.uss))
    return found or {None: 0}


def _members(pids: Mapping[int, int]) -> list[tuple[int | None, psutil.Process]]:
    """Every process below this one with the rank that it comes from; None for one whose parents have gone."""
    children = psutil.Process().children(recursive=True)
    owners: dict[int, int | None] = {pid: rank for rank, pid in pids.items()}
    found: list[tuple[int | None, psutil.Process]] = []
    for process in children:  # parents come before their children
        with contextlib.suppress(psutil.Error):
            owners.setdefault(process.pid, owners.get(process.ppid()))
            found.append((owners[process.pid], process))
    return found


def _most(amounts: Mapping[int | None, int]) -> frozenset[int]:
    most = max(amounts, key=lambda rank: amounts[rank])
    return frozenset() if most is None else frozenset({most})


def _files(folder: Path) -> Iterable[os.DirEntry[str]]:
    """All files below a folder, without recursion: a student may nest folders as deep as they like."""
    folders = [str(folder)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
