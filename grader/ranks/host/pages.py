"""Memory of the host on huge pages, so that forks of it cost less: their page tables are a fraction as long."""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

HUGE, ROOM = 2 << 20, 256 << 20
"""Bytes of a huge page, and those by which malloc's heap grows beforehand: what is not touched costs nothing."""
_HUGEPAGE, _COLLAPSE = 14, 25
"""MADV_HUGEPAGE, and MADV_COLLAPSE, since Linux 6.1. A kernel without them refuses, and all stays as it was."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
"""glibc's names for settings of malloc: free bytes at the top of its heap that it gives back, bytes from which on an
allocation is a mapping of its own, and how many of those there may be."""
_WIDE = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 1 << 30}
_USUAL = {_MMAP_MAX: 1 << 16, _MMAP_THRESHOLD: 4 << 20, _TRIM_THRESHOLD: 8 << 20}
"""What glibc's settings grow to by themselves in a process that has had tensors of some megabytes."""
_PRIVATE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 *(\[heap\])?$", re.M)
"""A line of /proc/PID/maps about memory of the process's own that no file stands behind."""


@contextlib.contextmanager
def heap_on_huge_pages() -> Iterator[None]:
    """What malloc hands out here lies on huge pages, from the first touch on. Where the system is no Linux with glibc
    nothing is changed. A fork makes none of its own (`prctl.small_pages`), so what it uses is seen to the page."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "mallopt"):
        yield
        return
    _settle(libc, _WIDE, ROOM)  # more than can be free anywhere, so the heap grows by it
    _advise(_HUGEPAGE, "[heap]")
    yield
    _settle(libc, _USUAL, HUGE)  # large enough for malloc to look at the top of its heap when it is freed


def _settle(libc: ctypes.CDLL, settings: Mapping[int, int], size: int) -> None:
    """Set malloc's settings, then ask it for so many bytes and free them."""
    for name, value in settings.items():
        libc.mallopt(name, value)
    libc.malloc.restype = ctypes.c_void_p
    libc.free(ctypes.c_void_p(libc.malloc(ctypes.c_size_t(size))))


def collapse() -> None:
    """Move all that this process has in memory to huge pages. Takes up to half a second where torch is imported."""
    if sys.platform == "linux":
        _advise(_COLLAPSE, "")


def _advise(advice: int, name: str) -> None:
    """Give the kernel advice on the huge pages of this process's memory, or of the part with a name."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for first, last, called in _PRIVATE.findall(Path("/proc/self/maps").read_text()):
        begin, end = -(-int(first, 16) // HUGE) * HUGE, int(last, 16) // HUGE * HUGE
        if begin < end and name in called:
            advise(begin, end - begin, advice)
