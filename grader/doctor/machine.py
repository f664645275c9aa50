"""Facts about cores, memory, disks, ports and limits."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path

import psutil

from grader.doctor.fact import Fact, Mark, rated

MIB = 1 << 20
RANKS = 4
"""The most ranks that a usual case has."""
MEMORY = RANKS * 300 * MIB
"""Bytes: what the judge and so many ranks take together."""
TEMPORARY, SHARED = 256 * MIB, 64 * MIB
PROCESSES = FILES = 256
CGROUP = Path("/sys/fs/cgroup")


def cores() -> Fact:
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        count = os.cpu_count() or 1
    return rated("cores", count > 1, str(count), "cases run side by side", "ranks take turns; grading is slower")


def memory() -> Fact:
    free = available_memory(psutil.virtual_memory().available)
    return memory_of(free)


def memory_of(free: int) -> Fact:
    """What so many free bytes mean."""
    otherwise = f"{RANKS} ranks may need {_size(MEMORY)}; close other programs"
    return rated("memory", free >= MEMORY, f"{_size(free)} free", f"enough for {RANKS} ranks and the judge", otherwise)


def available_memory(free: int, group: Path = CGROUP) -> int:
    """Free bytes, or what the container is still allowed where that is less."""
    try:
        allowed = int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
    except (OSError, ValueError):  # no container, or one without a limit
        return free
    return max(0, min(free, allowed))


def shared_memory() -> Fact:
    folder = Path("/dev/shm")
    if not folder.is_dir():
        return rated("/dev/shm", False, "absent", "", "tensors between processes go through files")
    room = _room(folder)
    otherwise = "tensors that a student's processes share may not fit (in a container: --shm-size=1g)"
    return rated("/dev/shm", room >= SHARED, _free(room), "tensors can be shared between processes", otherwise)


def temporary_folder() -> Fact:
    name = "temporary folder"
    try:
        folder = Path(tempfile.gettempdir())
    except OSError as error:
        return Fact(
            name=name, mark=Mark.NO, found=str(error), meaning="ranks have no place for their files; set TMPDIR"
        )
    return temporary(folder)


def temporary(folder: Path) -> Fact:
    """Whether ranks can have their scratch folders in `folder`."""
    room = _room(folder)
    otherwise = f"{_size(TEMPORARY)} are needed for ranks' files; set TMPDIR to a folder with room"
    bad = Mark.NO if room < MIB else Mark.LESS
    return rated("temporary folder", room >= TEMPORARY, f"{folder}, {_free(room)}", "room for ranks", otherwise, bad)


def loopback() -> Fact:
    """A port that the system assigns is bound and reached."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        found = f"fails: {error.strerror or error}"
        return Fact(name="loopback", mark=Mark.NO, found=found, meaning="ranks cannot meet at 127.0.0.1")
    return Fact(name="loopback", mark=Mark.YES, found="a port was bound and reached", meaning="ranks can meet")


def processes() -> Fact:
    return _limit("processes", "RLIMIT_NPROC", PROCESSES, "-u")


def open_files() -> Fact:
    return _limit("open files", "RLIMIT_NOFILE", FILES, "-n")


def _limit(name: str, resource_name: str, needed: int, option: str) -> Fact:
    try:
        import resource

        soft = resource.getrlimit(getattr(resource, resource_name))[0]
    except (ImportError, AttributeError):
        return rated(name, False, "no limit known", "", "nothing to do on this system")
    endless = soft == resource.RLIM_INFINITY
    otherwise = f"a grade may need {needed}: ulimit {option} {needed}"
    return rated(name, endless or soft >= needed, "no limit" if endless else f"at most {soft}", "enough", otherwise)


def _room(folder: Path) -> int:
    """Free bytes for us in a folder; 0 where no file can be made."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _free(room: int) -> str:
    return f"{_size(room)} free" if room else "not writable or full"


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count // MIB} MiB"


PROBES = (cores, memory, shared_memory, temporary_folder, loopback, processes, open_files)
