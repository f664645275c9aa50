"""Counts what a run uses of this machine, and says which limit it has passed. Runs in the supervisor.

The kernel enforces what it can by itself (`inside.limits`); a census sees what those miss, such as a
thousand processes of root, or many files of which each is small.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from grader.model import MIB, Limits
from grader.ranks.request import Request
from grader.ranks.watch import buffers, usage

EVERY, DISK_EVERY, SHARES_EVERY = 0.25, 1.0, 2.0
"""Seconds between two counts of processes and memory, of files, and of memory with what is shared told apart."""
IN_MEMORY = (Path("/dev/shm"), Path("/tmp"))
"""Places in memory that are this session's own where the ranks are alone: file systems, or links into its folder."""

Owner = int | None
"""The rank that a process comes from; None for one whose parents have gone."""


class Excess(NamedTuple):
    """A limit that was passed, in words, and the ranks that did it (none: nobody knows which)."""

    text: str
    ranks: frozenset[int]


class Census:
    """One run of `ranks` ranks. `folder` holds its files, `linked` are further folders of its own, and `elsewhere` are
    further file systems.

    Memory is what a rank has beyond what it began with: `base` bytes, which forks of the warm host share with it and
    ranks that were `spawned` have each for itself.
    """

    def __init__(
        self,
        limits: Limits,
        folder: Path,
        base: int,
        *,
        ranks: int = 1,
        elsewhere: Sequence[Path] = (),
        linked: Sequence[Path] = (),
        spawned: bool = False,
    ) -> None:
        self._limits, self._folders, self._base, self._ranks = limits, (folder, *linked), base, ranks
        self._elsewhere, self._spawned = elsewhere, spawned
        self._counted = self._measured = time.monotonic()
        self._shared_again = 0.0
        self._shared_at_first = usage.shared_on_machine()

    def excess(self, pids: Mapping[int, int], beginning: Container[int] = ()) -> Excess | None:
        """The limit that the run has passed, if any. `pids` maps ranks to their processes, also those that have said
        how they ended and are still there. Those that are `beginning` have run nothing of the student's yet, and may
        be as hidden as the host that they are forked from. Cheap when called often."""
        try:
            return self._excess(pids)
        except usage.TooMany as what:
            return Excess(str(what), frozenset())
        except usage.Hidden as what:
            return None if what.pid in beginning else Excess(str(what), frozenset())

    def _excess(self, pids: Mapping[int, int]) -> Excess | None:
        now = time.monotonic()
        if now - self._counted >= EVERY:
            self._counted = now
            present = members(pids)
            if found := self._processes(present) or self._memory(present, pids):
                return found
        if now - self._measured >= DISK_EVERY:
            self._measured = now
            return self._disk(pids)
        return None

    def _processes(self, members: list[tuple[Owner, psutil.Process]]) -> Excess | None:
        """A fork bomb is counted and not measured, for it grows meanwhile."""
        most, threads = self._limits.processes, dict[Owner, int]()
        for rank, process in members:
            with contextlib.suppress(psutil.Error):
                threads[rank] = threads.get(rank, 0) + (1 if len(members) > most else process.num_threads())
        if (count := sum(threads.values())) <= most:
            return None
        kind = "processes" if len(members) > most else "processes and threads"
        return Excess(f"processes: {count} {kind}, at most {most}", _most(threads))

    def _memory(self, members: list[tuple[Owner, psutil.Process]], pids: Mapping[int, int]) -> Excess | None:
        began = dict.fromkeys(pids.values(), self._base)
        roughly = _by_owner((rank, usage.own_memory(one.pid) - began.get(one.pid, 0)) for rank, one in members)
        if not self._over(roughly) or time.monotonic() < self._shared_again:
            return None
        self._shared_again = time.monotonic() + SHARES_EVERY
        amounts = self._exactly(members)  # forks share most of theirs, which takes a longer look
        if not self._over(amounts):
            return None
        most, blamed = self._limits.memory // MIB, _most(amounts)
        much = max(amounts.values()) if blamed else sum(amounts.values())
        return Excess(f"memory: {much // MIB} MiB, at most {most} MiB for each rank", blamed)

    def _over(self, amounts: Mapping[Owner, int]) -> bool:
        """One rank over its limit, or all over that of all: nobody knows whose a process is whose parents have gone."""
        whole = self._limits.memory * self._ranks
        return sum(amounts.values()) > whole or max(amounts.values(), default=0) > self._limits.memory

    def _exactly(self, members: list[tuple[Owner, psutil.Process]]) -> dict[Owner, int]:
        """Memory by rank, each page once. What a rank's forks share of the base is together at most the base."""
        part = self._base if self._spawned else usage.shared_part()
        amounts = _by_owner((rank, usage.shared_out(process.pid)) for rank, process in members)
        forks = _by_owner((rank, part) for rank, _ in members)
        return {rank: max(0, amount - min(forks[rank], self._base)) for rank, amount in amounts.items()}

    def _disk(self, pids: Mapping[int, int]) -> Excess | None:
        present = [process.pid for _, process in members(pids)]
        size = sum(map(usage.used, self._elsewhere)) + usage.nameless_files(present, self._elsewhere)
        held = buffers.in_sockets(present)
        if held.under_way:  # nobody has those files, and nobody knows whose they are
            size = max(size, usage.shared_on_machine() - self._shared_at_first)
        if held.waiting > self._limits.memory:
            text = f"memory: {held.waiting // MIB} MiB in sockets, at most {self._limits.memory // MIB} MiB"
            return Excess(text, frozenset())
        closed: list[str] = []
        for count, entry in enumerate(usage.files_below(self._folders, closed), 1):
            with contextlib.suppress(OSError):
                size += entry.stat(follow_symlinks=False).st_blocks * 512
            if count > usage.MAX_FILES:
                return self._full(f"more than {usage.MAX_FILES} files")
            if size > self._limits.disk:
                break
        if closed:
            return self._full("folders that cannot be looked into")
        return self._full(f"{size // MIB} MiB of files or more") if size > self._limits.disk else None

    def _full(self, seen: str) -> Excess:
        return Excess(f"disk: {seen}, at most {self._limits.disk // MIB} MiB", frozenset())


def census_of(request: Request, folder: Path, base: int) -> Census:
    """That of a run whose files lie in `folder`. Its ranks are about to be forked from a process of `base` bytes."""
    return Census(
        request.limits,
        folder,
        base,
        ranks=request.world_size,
        elsewhere=[place for place in IN_MEMORY if request.alone and os.path.ismount(place)],
        linked=[place.resolve() for place in IN_MEMORY if request.alone and place.is_symlink()],
        spawned=request.start_method == "spawn",
    )


def members(pids: Mapping[int, int]) -> list[tuple[Owner, psutil.Process]]:
    """Every process below this one with the rank that it comes from."""
    children = psutil.Process().children(recursive=True)
    owners: dict[int, Owner] = {pid: rank for rank, pid in pids.items()}
    found: list[tuple[Owner, psutil.Process]] = []
    for process in children:  # parents come before their children
        with contextlib.suppress(psutil.Error):
            owners.setdefault(process.pid, owners.get(process.ppid()))
            found.append((owners[process.pid], process))
    return found


def _by_owner(rows: Iterable[tuple[Owner, int]]) -> dict[Owner, int]:
    amounts: dict[Owner, int] = {}
    for rank, amount in rows:
        amounts[rank] = amounts.get(rank, 0) + max(0, amount)
    return amounts


def _most(amounts: Mapping[Owner, int]) -> frozenset[int]:
    most = max(amounts, key=lambda rank: amounts[rank])
    return frozenset() if most is None else frozenset({most})
