"""The kernel's own account of TCP sockets: sock_diag(7) over netlink, which needs no rights.

A dump shows those that there are; of those that are destroyed the kernel sends a last word, to whoever has asked for
that before. Both carry struct tcp_info, in which every byte is counted. Sees its own network namespace.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

NETLINK_SOCK_DIAG, TCPDIAG_GETSOCK, SOCK_DIAG_BY_FAMILY = 4, 18, 20
DESTROYED = 0b101
"""The groups of destroyed TCP sockets: of IPv4 (1) and IPv6 (3), as bits."""
REQUEST_DUMP, DONE, ERROR = 0x301, 3, 2
STATES = 0xFFFFFFFF & ~(1 << 6 | 1 << 13)
"""All but TIME_WAIT, what has only its number left, and BOUND_INACTIVE, what has but a number yet: for these the
kernel, since 6.8, walks one more table, which is the machine's, and that takes most of a millisecond."""
INET_DIAG_INFO = 2
BYTES_RECEIVED, BYTES_UNSENT = 128, 144
"""Where struct tcp_info holds tcpi_bytes_received, since Linux 4.1, and tcpi_notsent_bytes, since 4.6."""
RECEIVE_QUEUE = 56
"""Where struct inet_diag_msg holds idiag_rqueue: what has come and has not been read."""
BUFFER, AT_ONCE = 4 << 20, 1 << 15
_HEADER = struct.Struct("=IHHII")


def question_of(kind: int, body: bytes) -> bytes:
    """A whole message that asks for a dump with struct tcp_info."""
    return _HEADER.pack(16 + len(body), kind, REQUEST_DUMP, 0, 0) + body


_INFO = 1 << (INET_DIAG_INFO - 1)
_OLDER = struct.pack("=BBBB48xII", socket.AF_INET, 0, 0, _INFO, STATES, 0)
OF_ANY_FAMILY: tuple[bytes, ...] = (question_of(TCPDIAG_GETSOCK, _OLDER),)
"""The older question, which walks the kernel's table of sockets once; that takes a millisecond."""
BY_FAMILY = tuple(
    question_of(SOCK_DIAG_BY_FAMILY, struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, _INFO, 0, STATES))
    for family in (socket.AF_INET, socket.AF_INET6)
)

MAPPED = bytes(10) + b"\xff\xff"
End = tuple[bytes, int]
"""An address as the kernel has it, and a port."""


class Socket(NamedTuple):
    """One end of a connection, or a listener, whose `remote` port is 0. `cookie` tells it from all others for ever;
    `inode` is 0 while no process has it. `waiting` is what has not been read, or not been sent, yet."""

    cookie: int
    local: End
    remote: End
    inode: int
    received: int
    waiting: int = 0


class Present:
    """The sockets that there are. Raises OSError where the kernel tells nothing of this kind."""

    def __init__(self) -> None:
        self._questions = netlink()
        self._questions.settimeout(1.0)
        self._asks = understood()

    def now(self) -> list[Socket]:
        """Every TCP socket that there is."""
        return [_socket(body) for question in self._asks for body in dumped(self._questions, question)]

    def close(self) -> None:
        """Ask no more."""
        self._questions.close()


class Sockets(Present):
    """Those that there are, and those that have gone."""

    def __init__(self) -> None:
        super().__init__()
        self._destroyed = netlink()
        self._destroyed.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self._destroyed.bind((0, DESTROYED))
        self._destroyed.setblocking(False)

    def destroyed(self) -> Iterator[Socket]:
        """Those that have gone since this was asked last. Raises OSError if there were too many to be told."""
        while True:
            try:
                data = self._destroyed.recv(AT_ONCE)
            except BlockingIOError:
                return
            yield from (_socket(body) for kind, body in _messages(data) if kind == SOCK_DIAG_BY_FAMILY)


@functools.cache
def understood() -> tuple[bytes, ...]:
    """The first of our questions that this kernel answers. Found out once: an answer takes a millisecond. Raises
    OSError where it answers none."""
    with netlink() as questions:
        questions.settimeout(1.0)
        with contextlib.suppress(OSError):
            return _answered(questions, OF_ANY_FAMILY)
        return _answered(questions, BY_FAMILY)


def _answered(questions: socket.socket, asks: tuple[bytes, ...]) -> tuple[bytes, ...]:
    for question in asks:
        list(dumped(questions, question))
    return asks


def netlink() -> socket.socket:
    """What the kernel is asked through."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)


def dumped(questions: socket.socket, question: bytes) -> Iterator[bytes]:
    """What the kernel answers, a message for each socket. Raises OSError where it does not know the question."""
    questions.send(question)
    while True:
        for kind, body in _messages(questions.recv(AT_ONCE)):
            if kind == DONE:
                return
            if kind == ERROR:
                raise OSError(-struct.unpack_from("=i", body)[0], "the kernel does not tell of its sockets")
            yield body


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + 16 <= len(data):
        length, kind = struct.unpack_from("=IH", data, place)
        if length < 16:
            return
        yield kind, data[place + 16 : place + length]
        place += (length + 3) & ~3


def _socket(body: bytes) -> Socket:
    """struct inet_diag_msg and its attributes."""
    family, _, _, _, sport, dport, source, target = struct.unpack_from("=BBBB2s2s16s16s", body)
    (cookie,) = struct.unpack_from("=Q", body, 44)
    (inode,) = struct.unpack_from("=I", body, 68)
    local = (_address(family, source), int.from_bytes(sport, "big"))
    remote = (_address(family, target), int.from_bytes(dport, "big"))
    info = attribute(body, 72, INET_DIAG_INFO)
    received = _number("=Q", info, BYTES_RECEIVED)
    waiting = _number("=I", body, RECEIVE_QUEUE) + _number("=I", info, BYTES_UNSENT) if remote[1] else 0
    return Socket(cookie, local, remote, inode, received, waiting)


def attribute(body: bytes, place: int, wanted: int) -> bytes:
    """An attribute of a message whose attributes begin at a place; empty where it has none of this kind."""
    while place + 4 <= len(body):
        length, kind = struct.unpack_from("=HH", body, place)
        if length < 4:
            break
        if kind == wanted:
            return body[place + 4 : place + length]
        place += (length + 3) & ~3
    return b""


def _number(kind: str, data: bytes, place: int) -> int:
    """0 where an older kernel's struct ends before it."""
    return int(struct.unpack_from(kind, data, place)[0]) if len(data) >= place + struct.calcsize(kind) else 0


def _address(family: int, raw: bytes) -> bytes:
    """An IPv4 address within IPv6 is the same as without."""
    if family == socket.AF_INET:
        return raw[:4]
    return raw[12:] if raw.startswith(MAPPED) else raw
