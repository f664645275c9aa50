"""The runs of a session that are under way, each by its connection, over which it can be called off."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Connections:
    """May be used from any thread. `cancels` is how often all runs were called off."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cases: dict[socket.socket, str] = {}
        self._off: set[socket.socket] = set()
        self.cancels = 0

    @contextlib.contextmanager
    def held(self, connection: socket.socket, case: str, cancels: int) -> Iterator[None]:
        """Know the connection of a case's run in the block. `cancels` is as it was when the run was asked for."""
        with self._lock:
            self._cases[connection] = case
            if cancels != self.cancels:
                self._hang_up(connection)
        try:
            yield
        finally:
            with self._lock:
                del self._cases[connection]
                self._off.discard(connection)

    def is_off(self, connection: socket.socket) -> bool:
        """Whether the run of this connection, which is still held, was called off."""
        return connection in self._off

    def call_off(self, case: str | None = None) -> None:
        """End the runs of one case, or of all. Their supervisors see that nobody listens any more."""
        with self._lock:
            self.cancels += case is None
            for connection, of in self._cases.items():
                if case in (None, of):
                    self._hang_up(connection)

    def _hang_up(self, connection: socket.socket) -> None:
        self._off.add(connection)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
