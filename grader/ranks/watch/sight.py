"""What the supervisor sees of a rank at the moment at which its probe asks: memory, processes below it, files. Told to
the judge and not to the rank."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import psutil

from grader.model.witness import Below, Seen
from grader.ranks.watch import buffers, usage
from grader.ranks.watch.census import members
from grader.ranks.watch.folder import RunFolder
from grader.ranks.watch.watched import Watched

SEEN = b"seen"
"""What a rank is told then."""
MOST = 1000
"""Processes, and files, that are told of one rank in all looks; right solutions have about a hundred at most."""
LONGEST = 100
"""Characters of a name, which is told in ASCII. So all of it crosses to the judge, whatever a rank makes and starts."""


class Sights:
    """What was seen of the ranks of a run, of which each began with `base` bytes."""

    def __init__(self, folder: RunFolder, base: int, ranks: int) -> None:
        self._folder, self._base, self._ranks = folder, base, ranks
        self._seen: list[Seen] = []
        self._left = dict.fromkeys(range(ranks), (MOST, MOST))
        self._began_with = self._common()

    @property
    def told(self) -> tuple[Seen, ...]:
        return tuple(self._seen)

    def look(self, rank: Watched, name: str, pids: Mapping[int, int]) -> None:
        """Look at a rank that has asked for it; `pids` are those of all ranks. Raises OverBudget, WireError as
        Account.see."""
        rank.account.see(name)
        if rank.live:
            present = members(pids)
            below = [one for owner, one in present if owner == rank.rank and one.pid != rank.pid]
            astray = [one.pid for owner, one in present if owner is None]
            own = self._folder.path / f"rank{rank.rank}"
            processes, files = self._left[rank.rank]
            found = Seen(
                rank=rank.rank,
                name=_short(name),
                memory=self._memory(rank.pid, [one.pid for one in below], astray, own),
                processes=tuple(_told(one) for one in below[:processes]),
                files=tuple(islice(_names([self._folder.shared, own], self._folder.path), files)),
            )
            self._left[rank.rank] = processes - len(found.processes), files - len(found.files)
            self._seen.append(found)
        rank.ask(SEEN)

    def _memory(self, pid: int, below: list[int], astray: list[int], own: Path) -> int | None:
        """Pages of its own and of what it started, files without a name, what waits in pipes and sockets, files in its
        folder, and its part of those in the folders of all ranks and of the processes that no rank is the parent of any
        more. None where this system does not tell."""
        try:
            anonymous, shared = usage.kinds_of_memory(pid)
        except OSError:
            return None
        common, everybody = self._common() - self._began_with, [pid, *below, *astray]
        try:
            common += sum(map(usage.shared_out, astray))
            shared = max(shared, usage.nameless_files(everybody)) + sum(map(usage.shared_out, below))
            shared += buffers.waiting(everybody)
        except usage.Unseen:
            shared += buffers.UNKNOWN  # of which the next census makes an end
        return anonymous - self._base + shared + usage.size_of([own]) + common // self._ranks

    def _common(self) -> int:
        """Bytes of the files of the run that lie in no rank's own folder."""
        own = {f"rank{rank}" for rank in range(self._ranks)}
        with contextlib.suppress(OSError), os.scandir(self._folder.path) as entries:
            others = [entry for entry in entries if entry.name not in own]
            return usage.size_of(map(Path, others)) + sum(entry.stat().st_blocks * 512 for entry in others)
        return 0


def _told(process: psutil.Process) -> Below:
    with contextlib.suppress(psutil.Error):
        return Below(pid=process.pid, status=str(process.status()))
    return Below(pid=process.pid, status=psutil.STATUS_DEAD)


def _names(places: list[Path], above: Path) -> Iterator[str]:
    for entry in usage.files_below(places):
        yield _short(str(Path(entry.path).relative_to(above)))


def _short(name: str) -> str:
    return name.encode("ascii", "replace").decode()[:LONGEST]
