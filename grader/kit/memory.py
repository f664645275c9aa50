"""What a process keeps alive, by every instrument there is: tensors, arrays, bytes, shared memory, files, whoever
holds them and however.

    disregard_existing()                            first of all
    meter = Meter(rank, "Adam")
    …                                               student code builds something and keeps it
    rank.record(*meter.growth("after a step"))      as "Adam: after a step"

The judge reads it by grader.checks.memory.kept, which holds it against what the supervisor saw from outside.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from grader.kit import recorder

Reading = dict[str, int | None]
"""Bytes by instrument; None where this system does not have it."""
LOOKS, PAUSE, CALM = 500, 0.003, 4
"""At most so many readings, so many seconds apart, until so many in a row are the same."""
BEFORE = "before"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, RETURNED = -1, -3, 2**17
"""glibc's names for two settings, and bytes for both."""
NOISE = 2**12
"""Readings that differ by fewer bytes are the same."""


def disregard_existing() -> None:
    """From now on what is here already is not looked at, which would take most of the time. To be called before the
    tensors of which student code may keep views are made: a view would be counted as if all of its tensor were new.
    What torch itself notes of each collective takes no further memory from now on either."""
    recorder.fill()
    gc.collect()
    gc.freeze()
    _return_early()


def layout(world_size: int) -> list[list[int]]:
    """Sizes of parameters, in units, by group, to share out among ranks. The last group may be added later.

    No size exceeds a quarter of a rank's share. They come in patterns on which careless ways to deal are unbalanced:
    every N-th is large (dealing in turn), the first half is larger than the second (dealing by position), and many
    groups have one member only (dealing each group for itself).
    """
    period = [3] + [1] * (world_size - 1)
    repeats = 48 // max(world_size, 3)
    many = [size * (2 if number < repeats * world_size // 2 else 1) for number, size in enumerate(period * repeats)]
    return [many, *[[3] for _ in range(8)], period * 4]


class Meter:
    """Measures what this process has more than when the meter was made, and lets the supervisor look at the same
    moments. Where there is a default group, to make a meter and to ask for the growth are collective calls. `name` and
    the moments are for the records; no two meters of a run have the same name."""

    def __init__(self, rank: Any, name: str) -> None:
        self._rank, self._name = rank, name
        self._before = self._read(BEFORE)

    def growth(self, when: str) -> tuple[str, Reading]:
        """What to record it as, and bytes by instrument, negative where there are fewer."""
        return f"{self._name}: {when}", growth(self._before, self._read(when))

    def _read(self, when: str) -> Reading:
        found = settled(self._rank)
        _return_free_memory()
        self._rank.be_seen(f"{self._name}: {when}")
        return found


def _return_early() -> None:
    """Let malloc give what is freed back to the system, which else cannot tell it from what is in use. By itself glibc
    keeps up to 64 MiB at the top of each thread's heap, the more the larger the tensors were."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, RETURNED)
        libc.mallopt(M_TRIM_THRESHOLD, RETURNED)


def _return_free_memory() -> None:
    """The same for what was freed between other things."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def growth(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> Reading:
    """What one reading has more than another."""
    return {name: None if now is None else now - (before[name] or 0) for name, now in after.items()}


def settled(rank: Any) -> Reading:
    """A reading once it no longer changes and no other thread has anything to do: a collective's buffer is released
    some milliseconds after its end, by a thread that on a busy machine may have to wait for its turn."""
    if dist.is_initialized():
        dist.barrier()
    gc.collect()
    last, calm = reading(rank), 0
    for _ in range(LOOKS):
        time.sleep(PAUSE)
        now = reading(rank)
        calm = calm + 1 if _same(last, now) and _others_rest() else 0
        last = now
        if calm == CALM:
            break
    return {**last, "storages": storages()}


def _same(last: Reading, now: Reading) -> bool:
    return all(abs(change or 0) < NOISE for change in growth(last, now).values())


def _others_rest() -> bool:
    """Whether all other threads of this process wait for something: not for a core, nor for the kernel to take memory
    back. True where the system does not tell."""
    states = {}
    for thread in Path("/proc/self/task").glob("*"):
        with contextlib.suppress(OSError):  # one that has ended meanwhile
            states[thread.name] = (thread / "stat").read_text().rpartition(")")[2].split()[0]
    states.pop(str(threading.get_native_id()), None)
    return not {"R", "D"} & set(states.values())


def reading(rank: Any) -> Reading:
    """What this process has at the moment: on the heap, in shared memory, in files of its own, on its GPU."""
    gpu = torch.cuda.memory_allocated(rank.device) if rank.device.type == "cuda" else 0
    return {"heap": heap(), "shared": shared(), "files": files(rank.scratch), "gpu": gpu}


class Mallinfo2(ctypes.Structure):
    """glibc's struct: ten numbers of bytes or chunks."""

    NAMES = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = tuple((name, ctypes.c_size_t) for name in NAMES)


def heap() -> int | None:
    """Bytes that malloc has handed out and not got back, whoever holds them and however; None without glibc."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError, TypeError):
        return None
    mallinfo2.restype = Mallinfo2
    info = mallinfo2()
    return int(info.uordblks + info.hblkhd)


def shared() -> int | None:
    """Bytes of shared memory that this process has touched: shared tensors, anonymous maps. None without /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssShmem:"))


def files(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def storages() -> int:
    """Bytes of all tensors that Python's collector knows, each storage once; the disregarded excluded, and those on
    `meta`, which have a size and no memory."""
    sizes = {}
    for thing in gc.get_objects():
        kind = type(thing)
        if (kind is torch.Tensor or kind is nn.Parameter) and thing.layout is torch.strided and not thing.is_meta:
            storage = thing.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())
