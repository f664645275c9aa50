"""Holds what the kernel tells of TCP sockets (`sockets`) against the ranks of a run: who has moved how much to whom."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from grader.kit import gpus
from grader.model.witness import Link, Witness
from grader.ranks.inside.sockets import End, Socket, Sockets

SOONEST, LATEST = 0.02, 0.16
"""Seconds between two looks: after one that found new sockets, and at most, where none came for a while. A connection
that lives shorter may be counted without anybody's name."""
MAX_SOCKETS, MANY = 20_000, 2000
"""So many are kept in mind, and so many of a run's own are many: right programs have had some hundreds."""
LOOPBACK = (b"\x7f", bytes(15) + b"\x01")


class Watcher:
    """Of one run, whose reserved port is `port` and whose own group meets in the file `rendezvous`. `given` is the port
    in MASTER_PORT. Where the run is `apart`, in a network of its own, every socket is its.

    It looks again and again whose sockets are whose, and keeps the last that the kernel said of each. Tells nothing
    where the kernel does not, or where there are GPUs: over them ranks communicate by other ways.
    """

    def __init__(self, port: int, rendezvous: Path, *, given: int | None = None, apart: bool = False) -> None:
        self._port, self._rendezvous, self._given, self._apart = port, rendezvous, given, apart
        self._chosen = ChosenPorts()
        self._seen: dict[int, Socket] = {}
        self._owners: dict[int, int | None] = {}
        self._listeners: dict[int, int | None] = {}
        self._doubtful: set[int] = set()
        self._complete, self._crowded = True, False
        self._written, self._looked, self._pause = 0, 0.0, SOONEST
        self._sockets: Sockets | None = None
        self._absent = "there are GPUs, over which ranks communicate by other ways" if gpus.possible() else ""
        try:
            self._sockets = None if self._absent else Sockets()
        except (OSError, AttributeError):
            self._absent = "this system does not tell what its sockets have moved"

    def look(self, pids: Mapping[int, int], *, now: bool = False) -> None:
        """`pids` maps ranks to their processes. Cheap when called often; `now` says that it is needed."""
        if self._sockets is None or not (now or time.monotonic() - self._looked >= self._pause):
            return
        self._looked = time.monotonic()
        with contextlib.suppress(OSError):
            self._written = max(self._written, self._rendezvous.stat().st_size)
        try:
            alive = self._sockets.now()
        except OSError:
            self._complete, alive = False, []
        for one in alive:
            self._note(one)
        self._note_destroyed(self._sockets)
        self._pause = min(2 * self._pause, LATEST)
        if fresh := [one for one in alive if one.inode and one.cookie not in self._owners]:
            self._pause = SOONEST
            self._claim(fresh, pids)

    def _note_destroyed(self, sockets: Sockets) -> None:
        try:
            for one in sockets.destroyed():
                self._note(one)
                self._disown(one)
        except OSError:
            self._complete, self._crowded = False, True

    def _note(self, one: Socket) -> None:
        if one.cookie not in self._seen and len(self._seen) >= MAX_SOCKETS:
            self._complete, self._crowded = False, True
        else:
            self._seen[one.cookie] = one

    def _disown(self, one: Socket) -> None:
        """A connection with a listener of somebody else's is not this run's, however short it was."""
        ports = {one.local[1], one.remote[1]} - {0}
        strange = [port for port in ports if self._listeners.get(port, 0) is None]
        if one.remote[1] and strange:
            self._owners.setdefault(one.cookie, None)
        elif strange:
            del self._listeners[one.local[1]]

    def _claim(self, fresh: list[Socket], pids: Mapping[int, int]) -> None:
        """Find out whose sockets are. One that no rank has open is somebody else's if it is still there at the next
        look; else a rank may have closed it in the moment between."""
        inodes = {inode: rank for rank, pid in pids.items() for inode in _inodes(pid)}
        self._note_ports([one for one in fresh if self._chosen.of(one)], inodes)
        for one in fresh:
            rank = inodes.get(one.inode)
            if rank is None and one.cookie not in self._doubtful:
                self._doubtful.add(one.cookie)
                continue
            self._owners[one.cookie] = rank
            if not one.remote[1]:
                self._listeners[one.local[1]] = rank

    def _note_ports(self, chosen: list[Socket], inodes: Mapping[int, int]) -> None:
        """Remember the ports of those sockets that are of this run, also of what ranks have started."""
        strange = not self._apart and any(one.inode not in inodes for one in chosen)
        below = _inodes_below() if strange else set[int]()
        for one in chosen:
            if self._apart or one.inode in inodes or one.inode in below:
                self._chosen.add(one)

    def moved(self, pids: Mapping[int, int]) -> Hashable | None:
        """What each socket of the ranks has received up to now, and what waits in it; the same at two looks if between
        them nothing moved. None where the kernel does not tell."""
        if self._sockets is None:
            return None
        self.look(pids, now=True)
        own = (one for cookie, one in self._seen.items() if self._owners.get(cookie) is not None)
        return frozenset((one.cookie, one.received, one.waiting) for one in own) if self._complete else None

    # -- what is told -----------------------------------------------------------------------------------------

    def told(self) -> Witness:
        """All that was seen up to now."""
        if self._sockets is None:
            return Witness(absent=self._absent)
        self._note_destroyed(self._sockets)
        store, links = self._written, dict[tuple[int, ...], Link]()
        for ends in self._connections():
            if not (size := sum(end.received for end in ends)):
                continue
            if any(self._port in (end.local[1], end.remote[1]) for end in ends):
                store += size
            elif (ranks := self._ranks(ends)) is not None:
                before = links.get(ranks, Link(ranks=ranks, connections=0, bytes=0))
                links[ranks] = replace(before, connections=before.connections + 1, bytes=before.bytes + size)
        unclaimed = links.pop((), Witness().unclaimed)
        told = tuple(links[ranks] for ranks in sorted(links))
        return Witness(
            links=told,
            store_bytes=store,
            unclaimed=unclaimed,
            complete=not (self._crowded and self._has_many()),
            ports=self._chosen.ports,
            given=None if self._is_used(self._given) else self._given,
        )

    def _has_many(self) -> bool:
        """Whether it is this run that has more sockets than can be counted."""
        return self._apart or sum(rank is not None for rank in self._owners.values()) > MANY

    def _is_used(self, port: int | None) -> bool:
        return any(one.remote[1] and port in (one.local[1], one.remote[1]) for one in self._seen.values())

    def _connections(self) -> list[list[Socket]]:
        """The one or two ends of each."""
        found: dict[frozenset[End], list[Socket]] = {}
        for one in self._seen.values():
            if one.remote[1]:
                found.setdefault(frozenset((one.local, one.remote)), []).append(one)
        return list(found.values())

    def _ranks(self, ends: list[Socket]) -> tuple[int, ...] | None:
        """The two ranks of a connection, one where it is its own; () where it is not known whose it was. None for a
        connection of other processes, or out of this machine."""
        found = {self._owners.get(end.cookie, self._listeners.get(end.local[1])) for end in ends}
        foreign = any(end.cookie in self._owners and self._owners[end.cookie] is None for end in ends)
        if None not in found and len(ends) > 1:
            return tuple(sorted(rank for rank in found if rank is not None))
        near = all(end.remote[0].startswith(LOOPBACK) for end in ends)
        return () if near and not foreign else None


class ChosenPorts:
    """The ports of a run's sockets that the system gives to nobody by itself, so that the code has chosen them."""

    def __init__(self) -> None:
        self._given = _given_by_the_system()
        self._found: set[int] = set()

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(sorted(self._found))

    def of(self, one: Socket) -> set[int]:
        """Those of a socket on this machine."""
        near = not one.remote[1] or one.remote[0].startswith(LOOPBACK)
        return {port for port in (one.local[1], one.remote[1]) if port and port not in self._given} if near else set()

    def add(self, one: Socket) -> None:
        self._found |= self.of(one)


def _given_by_the_system() -> range:
    try:
        first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    except (OSError, ValueError):
        return range(1 << 16)  # then nothing is known to be chosen
    return range(first, last + 1)


def _inodes_below() -> set[int]:
    """The sockets that processes below this one have open."""
    with contextlib.suppress(psutil.Error):
        return {inode for process in psutil.Process().children(recursive=True) for inode in _inodes(process.pid)}
    return set()


def _inodes(pid: int) -> set[int]:
    """The sockets that a process has open."""
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                if target.startswith("socket:["):
                    found.add(int(target[8:-1]))
    return found
