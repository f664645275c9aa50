"""What processes use of this machine: memory of their own, and files that have no name or lie in shared memory."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import psutil

from grader.kit import prctl
from grader.ranks.inside import seccomp

MAX_FILES = 50_000
"""More files than this are never counted out; they take inodes even if they are empty."""
MAX_DESCRIPTORS = 50_000
"""Nor more descriptors of all processes of a run: to look at so many takes half a second."""
MAX_MAPS = 64 << 20
"""Bytes of /proc/PID/maps of all processes, which are read at most. One of ours takes 0.2 MB."""
SHARED_MEMORY = "/dev/shm/"
KCMP_FILES = 2
"""The question of kcmp(2) that is about descriptors."""
PARTS = ("Pss_Anon", "Pss_Shmem", "SwapPss", "Private_Hugetlb")
NAMELESS_MAP = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) ..[-w]s \S+ (\S+) (\d+) +(/dev/zero \(deleted\)|/memfd:.*|/SYSV.*)$", re.M
)
"""A line of /proc/PID/maps about shared memory that no file in a folder stands behind."""


def own_memory(pid: int) -> int:
    """Bytes of a process that no file stands behind, each page in full, however many processes share it."""
    with contextlib.suppress(OSError):
        return sum(kinds_of_memory(pid))
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def kinds_of_memory(pid: int) -> tuple[int, int]:
    """Bytes of a process that no file stands behind: its own, swapped out or not, and those of shared memory. Raises
    OSError where this system does not tell, or the process has gone."""
    status = Path(f"/proc/{pid}/status")
    return sum(_kilobytes(status, "RssAnon", "VmSwap", "HugetlbPages")), sum(_kilobytes(status, "RssShmem"))


def shared_out(pid: int) -> int:
    """The same, where of a page that n processes share each has a part of n. A look takes milliseconds. Raises
    Hidden."""
    parts: list[int] = []
    with _looking_into(pid):
        parts += _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), *PARTS)
    if not parts:
        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(pid).memory_full_info().uss)
    return sum(parts)


def shared_part() -> int:
    """Bytes that are this process's part of what it shares with others: so much each fork of the warm host has as well,
    without having asked for it."""
    with contextlib.suppress(OSError):
        told = Path("/proc/self/smaps_rollup")
        return max(0, sum(_kilobytes(told, "Pss_Anon")) - sum(_kilobytes(told, "Private_Dirty")))
    return 0


def _kilobytes(file: Path, *names: str) -> Iterator[int]:
    for line in file.read_text(errors="replace").splitlines():
        name, _, rest = line.partition(":")
        if name in names:
            yield int(rest.split()[0]) * 1024


class Unseen(Exception):
    """Something of a run cannot be looked at. Its text is that of a limit."""


class TooMany(Unseen):
    """There is more to look at than is ever looked at."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: more than can be looked at")


class Hidden(Unseen):
    """A process lets nobody look at what it has open or mapped, as one can ask the kernel for (PR_SET_DUMPABLE)."""

    def __init__(self, pid: int) -> None:
        super().__init__("hidden processes: one that lets nobody see what it has open")
        self.pid = pid


@contextlib.contextmanager
def _looking_into(pid: int) -> Iterator[None]:
    """What a process that has gone, or another system, raises is suppressed. Raises Hidden where the process is there:
    one that is about to be gone has no memory any more, and is nobody's to look into either."""
    try:
        yield
    except PermissionError:
        with contextlib.suppress(OSError):
            if any(_kilobytes(Path(f"/proc/{pid}/status"), "VmSize")):
                raise Hidden(pid) from None
    except OSError:
        pass


def nameless_files(pids: Iterable[int], counted: Iterable[Path] = ()) -> int:
    """Bytes of what processes keep in files that were removed or never had a name (memfd), in shared memory that is
    mapped alone, and in files of /dev/shm that they have open. Each file once, and none of the `counted` folders.
    Raises TooMany, Hidden."""
    pids = list(pids)
    others = {folder.stat().st_dev for folder in counted}
    sizes = dict(_held(pids))
    read = 0
    for pid in pids:
        with _looking_into(pid):
            told = Path(f"/proc/{pid}/maps").read_text(errors="replace")
            if (read := read + len(told)) > MAX_MAPS:
                raise TooMany("pieces of memory")
            for key, size in _mapped(told):
                sizes.setdefault(key, size)
    return sum(size for (device, _), size in sizes.items() if device not in others)


def descriptors(pids: Iterable[int]) -> Iterator[str]:
    """A path for each descriptor that processes have open. A thread may have a table of its own. Raises TooMany,
    Hidden."""
    found = 0
    for pid, folder in _tables(pids):
        with _looking_into(pid):
            names = os.listdir(folder)
            if (found := found + len(names)) > MAX_DESCRIPTORS:
                raise TooMany("descriptors")
            yield from (f"{folder}/{name}" for name in names)


def _tables(pids: Iterable[int]) -> Iterator[tuple[int, str]]:
    """The folder of each table of descriptors, with its process. Threads share their process' one, unless they have
    asked for another; a rank with hundreds of groups has thousands of threads."""
    for pid in pids:
        with _looking_into(pid):
            threads = sorted(map(int, os.listdir(f"/proc/{pid}/task")), key=lambda thread: thread != pid)
            if not threads:
                continue  # the process has ended between the opening of this folder and its reading
            first, *others = threads
            yield pid, f"/proc/{pid}/task/{first}/fd"
            yield from ((pid, f"/proc/{pid}/task/{one}/fd") for one in others if not _share_table(pid, first, one))


def _share_table(pid: int, one: int, other: int) -> bool:
    """Whether two threads have one table, by kcmp(2); where the kernel does not tell, whether they look alike."""
    if (compare := seccomp.number_of("kcmp")) is not None:
        found = prctl.libc().syscall(compare, one, other, KCMP_FILES, 0, 0)
        if found >= 0:
            return bool(found == 0)
    mine, theirs = (os.listdir(f"/proc/{pid}/task/{thread}/fd") for thread in (one, other))
    return mine == theirs


def _held(pids: Iterable[int]) -> Iterator[tuple[tuple[int, int], int]]:
    for path in descriptors(pids):
        with contextlib.suppress(OSError):
            seen = os.stat(path)
            if stat.S_ISREG(seen.st_mode) and (
                not seen.st_nlink or os.readlink(path).startswith((SHARED_MEMORY, "/memfd:"))
            ):
                yield (seen.st_dev, seen.st_ino), seen.st_blocks * 512


def _mapped(told: str) -> Iterator[tuple[tuple[int, int], int]]:
    """What is mapped counts in full: the kernel tells nobody how much of it was touched by processes that have gone."""
    for first, last, device, inode, _ in NAMELESS_MAP.findall(told):
        major, minor = (int(part, 16) for part in device.split(":"))
        yield (os.makedev(major, minor), int(inode)), int(last, 16) - int(first, 16)


def used(folder: Path) -> int:
    """Bytes in the file system of a folder, files without a name among them."""
    with contextlib.suppress(OSError):
        told = os.statvfs(folder)
        return (told.f_blocks - told.f_bfree) * told.f_frsize
    return 0


def files_below(places: Iterable[Path], closed: list[str] | None = None) -> Iterator[os.DirEntry[str]]:
    """All files below some folders, without recursion: a student may nest folders as deep as they like. Those that
    cannot be looked into, by their mode or because they are nested too deep, join the `closed` ones."""
    folders = [str(place) for place in places]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError as error:
            if closed is not None and error.errno in (errno.EACCES, errno.ENAMETOOLONG):
                closed.append(folder)


def size_of(places: Iterable[Path]) -> int:
    """Bytes that files in some folders take on the disk, the first MAX_FILES of them, and what their names, what links
    point to and their attributes hold, which takes no block."""
    size = 0
    for entry in islice(files_below(places), MAX_FILES):
        with contextlib.suppress(OSError):
            seen = entry.stat(follow_symlinks=False)
            size += max(seen.st_blocks * 512, seen.st_size if entry.is_symlink() else 0)
            size += len(entry.name) + _attributes(entry.path)
    return size


def _attributes(path: str) -> int:
    """Bytes of what a file's extended attributes are called and hold."""
    with contextlib.suppress(OSError, AttributeError):
        names = os.listxattr(path, follow_symlinks=False)
        return sum(len(name) + len(os.getxattr(path, name, follow_symlinks=False)) for name in names)
    return 0


def shared_on_machine() -> int:
    """Bytes of shared memory and files in memory of all of this machine."""
    with contextlib.suppress(OSError):
        return sum(_kilobytes(Path("/proc/meminfo"), "Shmem"))
    return 0
