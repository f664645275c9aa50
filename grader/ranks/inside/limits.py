"""Resource limits that the kernel holds a rank to, with all that it starts."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bytes of one file and of memory, seconds of processor time, processes. `alone`: the kernel counts the processes
    apart from all others of the user."""

    file: int
    cpu: float
    memory: int
    processes: int
    alone: bool


DESCRIPTORS = 8192
"""That a process has open at most: the supervisor looks at each of them, of all processes, again and again."""


def limit(bounds: Bounds) -> None:
    """Resource limits of this process and all that it starts. What the kernel cannot limit, the supervisor counts."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # the first to go where memory runs out
    with contextlib.suppress(ImportError):
        import resource

        _set(resource.RLIMIT_CORE, 0)
        _set(resource.RLIMIT_FSIZE, bounds.file)
        _set(resource.RLIMIT_CPU, int(bounds.cpu) + 1)
        _set(resource.RLIMIT_NOFILE, DESCRIPTORS)
        if data := _data():
            _set(resource.RLIMIT_DATA, data + bounds.memory)
        if bounds.alone:  # a count of its own; else that of all the user's processes
            _set(resource.RLIMIT_NPROC, 2 * bounds.processes)


def _set(kind: int, value: int) -> None:
    """Lower both limits, so that they cannot be raised again."""
    import resource

    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses some
        if kind == resource.RLIMIT_CPU:
            resource.setrlimit(kind, (value, value + 5))  # a signal that has a name comes first, then SIGKILL
        else:
            resource.setrlimit(kind, (value, value))


def _data() -> int:
    """Bytes of private memory that this process may write already; 0 where that cannot be limited: a GPU's driver
    reserves more than any limit."""
    from grader.kit import gpus

    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        found = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData")), 0)
        return 0 if gpus.possible() else found
    return 0
