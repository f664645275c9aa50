"""What the kernel counted of a run's connections, from outside of its ranks: frozen values. Standard library only."""

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
class Witness:
    """What moved between the processes of a run, as sock_diag(7) tells it. Closed connections are counted.

    `store_bytes` went over the port that is reserved for the run, or into the file where the grader's own group meets:
    a store's. `unclaimed` are connections within this machine that were closed before anybody could see whose they
    were; runs of a session that overlap have them in common. Not `complete` if there were more than could be counted.
    `ports` are those at which processes of the run listened, or which they called, and that the system gives to nobody
    by itself: the code has chosen them. `given` is the one in MASTER_PORT, where it names one that nobody used.
    `absent` says why nothing could be seen at all; then the numbers mean nothing.
    """

    links: tuple[Link, ...] = ()
    store_bytes: int = 0
    unclaimed: Link = Link(ranks=(), connections=0, bytes=0)
    complete: bool = True
    ports: tuple[int, ...] = ()
    given: int | None = None
    absent: str = ""

    @property
    def peer_bytes(self) -> int:
        """Bytes between different ranks, the store's left out."""
        return sum(link.bytes for link in self.links if len(link.ranks) == 2)
