"""What was seen of a run from outside of its ranks: frozen values. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """All TCP connections between two ranks (or of one with itself), over the whole run: how many, and the bytes that
    arrived, both ways together."""

    ranks: tuple[int, ...]
    connections: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """A process that a rank has started, itself or by way of others: one of psutil's STATUS words says what it does."""

    pid: int
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the supervisor saw of a rank when its probe asked for that (`Rank.be_seen`), by the name that was given.

    `memory` is bytes beyond those that the rank began with, of all below it and in files too; None where the system
    does not tell. `processes` are those below it, and `files` the names of all in its own folder and in the one that
    all ranks share, from the run's folder on ("shared/model.pt").
    """

    rank: int
    name: str
    memory: int | None = None
    processes: tuple[Below, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What moved between the processes of a run, as sock_diag(7) tells it. Closed connections are counted.

    `store_bytes` went over the port that is reserved for the run, or into the file where the grader's own group meets:
    a store's. `unclaimed` are connections within this machine that were closed before anybody could see whose they
    were; runs of a session that overlap have them in common. Not `complete` if the run had more than could be counted.
    `ports` are those at which processes of the run listened, or which they called, and that the system gives to nobody
    by itself: the code has chosen them. `given` is the one in MASTER_PORT, where it names one that nobody used.
    `absent` says why nothing could be seen of connections at all; then the numbers mean nothing. `seen` has what was
    seen of single ranks, which does not depend on that.
    """

    links: tuple[Link, ...] = ()
    store_bytes: int = 0
    unclaimed: Link = Link(ranks=(), connections=0, bytes=0)
    complete: bool = True
    ports: tuple[int, ...] = ()
    given: int | None = None
    absent: str = ""
    seen: tuple[Seen, ...] = ()

    @property
    def peer_bytes(self) -> int:
        """Bytes between different ranks, the store's left out."""
        return sum(link.bytes for link in self.links if len(link.ranks) == 2)
