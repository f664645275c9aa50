"""What the judge and the host know of each other: how the host is started, and how a request for a run is sent."""

from __future__ import annotations

import array
import socket
import struct

from grader.ranks.request import Request, plain, request_of
from grader.records import wire

READY = b"R"
FOLDER = "/ranks"
"""The host's working folder inside bubblewrap."""
TMP = f"{FOLDER}/tmp"
"""What /tmp is a link to there, so that both are one file system."""
SCRATCH = "ranklings-"
"""How the name of a session's scratch folder begins, which is the host's working folder below bubblewrap."""


def send(host: socket.socket, request: Request, descriptor: int) -> None:
    """The judge's side of a request."""
    body = wire.encode(plain(request))
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    host.sendmsg([struct.pack(">I", len(body))], rights)
    host.sendall(body)


def receive(judge: socket.socket) -> tuple[Request, int] | None:
    """The next request, or None when the judge has hung up."""
    try:
        head, descriptors, _, _ = socket.recv_fds(judge, 4, 1)
        if len(head) < 4 or not descriptors:
            return None
        (length,) = struct.unpack(">I", head)
        body = bytearray()
        while len(body) < length:
            chunk = judge.recv(length - len(body))
            if not chunk:
                return None
            body += chunk
        return request_of(wire.decode(body)), descriptors[0]
    except OSError:
        return None
