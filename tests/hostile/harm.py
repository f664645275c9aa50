"""What an attack may have done: a process that stays, a file that changes, a server reached, a page that obeys."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path

import psutil

import grader as grader_package

LEAVING_SECONDS = 15.0
"""How long a supervisor that has reported may take to be gone."""


class Outside:
    """Two servers outside of the sandbox, of TCP and of an abstract UNIX socket, that stand for the network."""

    def __init__(self, marker: str) -> None:
        self._tcp, self._unix = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
        self._unix.bind(f"\0{marker}")
        self._unix.listen()
        self.port: int = self._tcp.getsockname()[1]

    def was_reached(self) -> bool:
        return any([_accepts(self._tcp), _accepts(self._unix)])

    def close(self) -> None:
        self._tcp.close()
        self._unix.close()


def _accepts(server: socket.socket) -> bool:
    """Whether somebody, or several, had connected."""
    server.setblocking(False)
    callers = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            callers += 1
    return callers > 0


def left(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that do not leave in time. They are killed."""
    _, left = psutil.wait_procs(processes, timeout=LEAVING_SECONDS)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return left


def everybody() -> set[psutil.Process]:
    return set(psutil.process_iter())


def belongs(process: psutil.Process, *marks: str) -> bool:
    """Whether a process was started by a session: by descent, or by the environment or the marker that it carries."""
    with contextlib.suppress(psutil.Error):
        carried = [*process.cmdline(), *process.environ().values()]
        return any(mark in text for text in carried for mark in marks) or psutil.Process() in process.parents()
    return False


def injected(told: str) -> bool:
    """Whether a page holds what a terminal obeys, or a line that a CI runner would take for a command."""
    unseen = any(not char.isprintable() for char in told if char not in "\n\t")
    return unseen or any(line.lstrip().startswith("::") or "##[" in line for line in told.splitlines())


def fingerprints(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content; of what is no regular file, its name alone."""
    return {
        str(path): path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        for path in sorted(folder.rglob("*"))
    }


def marked_files(marker: str) -> list[Path]:
    """Files that carry the marker in their name, where other programs of the user look. They are removed."""
    package = Path(grader_package.__file__ or "").parent
    folders = ["/tmp", "/dev/shm", sys.prefix, Path(os.__file__).parent, package, Path.home()]
    found = {path for folder in folders for path in Path(folder).glob(f"*{marker}*")}
    for path in found:
        path.unlink()
    return sorted(found)
