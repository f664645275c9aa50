"""What processes keep in the kernel's own buffers, where no account of their memory shows it: in pipes, in sockets of
every kind, in terminals. Whoever puts something there can read it again later.

A descriptor can be kept in a socket as well, sent and not received. Then the file behind it and its memory are
nobody's, and all that can be seen is that there is one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import struct
import sys
import termios
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from grader.ranks.inside.sockets import SOCK_DIAG_BY_FAMILY, Present, attribute, dumped, netlink, question_of
from grader.ranks.watch.usage import descriptors

UNKNOWN = 64 << 20
"""Bytes that something counts for of which the kernel tells that it is there, and not how large it is: a descriptor
that is under way, a datagram, a connection that nobody has accepted. No exercise needs one at the moment of a look."""
CAPACITY = {"/dev/ptmx": 68 << 10, "/dev/pts/": 68 << 10, "anon_inode:inotify": 4 << 20}
"""Bytes that other things can hold, by how their names begin: a terminal, and a queue of files' names."""
QUEUES = {**dict.fromkeys(("udp", "udp6", "icmp", "icmp6"), (4, 9)), "netlink": (4, 9)}
"""Tables in /proc/net, and their columns of what waits, in the kernel's own count, and of the inode."""
SHOW_QUEUES, UNIX_DIAG_RQLEN, LISTENS = 0x10, 4, 10
_ALL = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, SHOW_QUEUES, 0, 0)
OF_UNIX_SOCKETS = question_of(SOCK_DIAG_BY_FAMILY, _ALL)


class Open(NamedTuple):
    """What some processes have open that can hold something: a path of each pipe and socket in /proc, by inode, and
    the capacity of what else there is."""

    pipes: dict[int, str]
    sockets: dict[int, str]
    others: dict[str, int]


def waiting(pids: Iterable[int]) -> int:
    """Bytes that wait in what these processes have open. What this process has open as well, such as the pipe of what a
    rank prints, is left out. Raises TooMany and Hidden, as all here."""
    own, seen = _open_in([os.getpid()]), _open_in(pids)
    pipes = [path for inode, path in seen.pipes.items() if inode not in own.pipes]
    sockets = {inode: path for inode, path in seen.sockets.items() if inode not in own.sockets}
    size = sum(map(_in_pipe, pipes)) + sum(seen.others.values()) + _in(sockets)
    return size + UNKNOWN * sum(map(_sent_along, sockets.values()))


class InSockets(NamedTuple):
    """Bytes that wait in the sockets of some processes, and how many descriptors."""

    waiting: int
    under_way: int


def in_sockets(pids: Iterable[int]) -> InSockets:
    """What this process has open as well is left out. Opens nothing of theirs, so it may be asked often."""
    own = _open_in([os.getpid()])
    sockets = {inode: path for inode, path in _open_in(pids).sockets.items() if inode not in own.sockets}
    return InSockets(_in(sockets), sum(map(_sent_along, sockets.values())))


def _in(sockets: Mapping[int, str]) -> int:
    return _in_tcp(sockets) + _in_unix(sockets) + _in_tables(sockets) if sockets else 0


def _open_in(pids: Iterable[int]) -> Open:
    found = Open({}, {}, {})
    for path in descriptors(pids):
        with contextlib.suppress(OSError):
            seen = os.stat(path)
            if stat.S_ISFIFO(seen.st_mode):
                found.pipes[seen.st_ino] = path
            elif stat.S_ISSOCK(seen.st_mode):
                found.sockets[seen.st_ino] = path
            elif not stat.S_ISREG(seen.st_mode) and (size := _capacity(os.readlink(path))):
                found.others[_place(path)] = size
    return found


def _capacity(name: str) -> int:
    return next((size for begin, size in CAPACITY.items() if name.startswith(begin)), 0)


def _place(path: str) -> str:
    """The process and the number of a descriptor, whichever of the threads has it."""
    _, _, pid, _, _, _, number = path.split("/")
    return f"{pid}/{number}"


def _in_pipe(path: str) -> int:
    """What has been written to a pipe and not been read."""
    with contextlib.suppress(OSError), _opened(path, os.O_PATH) as found:
        if stat.S_ISFIFO(os.fstat(found).st_mode):  # else somebody has put another thing in its place
            with _opened(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK) as end:
                return int.from_bytes(fcntl.ioctl(end, termios.FIONREAD, bytes(4)), sys.byteorder)
    return 0


@contextlib.contextmanager
def _opened(path: str, how: int) -> Iterator[int]:
    descriptor = os.open(path, how | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _in_tcp(sockets: Mapping[int, str]) -> int:
    """What nobody has accepted yet is its listener's, and what a closed one has not sent yet its other end's."""
    with contextlib.suppress(OSError, AttributeError):
        present = Present()
        try:
            every = present.now()
        finally:
            present.close()
        listeners = {one.local[1] for one in every if one.inode in sockets and not one.remote[1]}
        ends = {(one.remote, one.local) for one in every if one.inode in sockets and one.remote[1]}
        return sum(
            one.waiting
            for one in every
            if one.inode in sockets
            or (not one.inode and one.remote[1] and (one.local[1] in listeners or (one.local, one.remote) in ends))
        )
    return 0


def _in_unix(sockets: Mapping[int, str]) -> int:
    """What streams hold; of datagrams and of a listener's queue the kernel tells the first, or how many."""
    size = 0
    with contextlib.suppress(OSError, AttributeError), netlink() as questions:
        questions.settimeout(1.0)
        for body in dumped(questions, OF_UNIX_SOCKETS):
            _, kind, state, _, inode = struct.unpack_from("=BBBBI", body)
            told = attribute(body, 16, UNIX_DIAG_RQLEN)
            if inode in sockets and len(told) >= 8:
                (queue,) = struct.unpack_from("=I", told)
                whole = kind != socket.SOCK_DGRAM and state != LISTENS
                size += queue if whole else UNKNOWN * bool(queue)
    return size


def _in_tables(sockets: Mapping[int, str]) -> int:
    size = 0
    for name, (queue, inode) in QUEUES.items():
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
                row = line.split()
                if int(row[inode]) in sockets:
                    both = row[queue].split(":")  # what is to be sent, and what has come
                    size += sum(int(number, 16) for number in both) if len(both) > 1 else int(row[queue])
    return size


def _sent_along(path: str) -> int:
    """How many descriptors wait in a socket."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(path.replace("/fd/", "/fdinfo/")).read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "scm_fds":
                return int(rest)
    return 0
