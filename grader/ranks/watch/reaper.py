"""Leaves nothing behind: every descendant of a process, however it tried to get away, and its shared memory.

On Linux the run's supervisor is a subreaper, so a daemon that double-forked or called setsid becomes its child again.
Elsewhere `strays.py` finds it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil

from grader.kit import prctl

SHARED_MEMORY = "/dev/shm/"
TRACKER_SECONDS = 1.0
LOOK = 0.01
MAX_LOOKED_AT = 64
"""Of so many processes the shared memory is looked up, which takes a millisecond each: a fork bomb has thousands."""


def kill_descendants(spare: frozenset[int] = frozenset()) -> None:
    """End every process below this one, `spare` and what is below those excepted, and unlink their shared memory.

    Python's resource trackers unlink what killed processes leaked once those are gone, so they get a moment to do it.
    """
    shared: set[str] = set()
    while doomed := [process for process in _descendants(spare) if not _is_tracker(process)]:
        shared |= _kill(doomed)
    _, stubborn = psutil.wait_procs(_descendants(spare), timeout=TRACKER_SECONDS)
    while stubborn:
        shared |= _kill(stubborn)
        stubborn = _descendants(spare)
    for path in shared - _shared_memory(os.getpid()) if shared else ():
        with contextlib.suppress(OSError):
            os.unlink(path)


def kill_orphans(spare: frozenset[int]) -> None:
    """End what came to this process because the host that looked after it was killed: children in a session of their
    own that are not `spare`, and then what comes to us because those have ended."""
    while orphans := [child for child in psutil.Process().children() if child.pid not in spare and _is_stranger(child)]:
        for orphan in orphans:
            with contextlib.suppress(psutil.Error):
                _kill([*orphan.children(recursive=True), orphan])
        psutil.wait_procs(orphans, timeout=TRACKER_SECONDS)


def end(processes: list[psutil.Process]) -> None:
    """Kill processes, whoever's children they are, and wait a moment for them to go."""
    _kill(processes)
    psutil.wait_procs(processes, timeout=TRACKER_SECONDS)


def end_below(above: int, spare: int) -> None:
    """Stop a process, so that it starts nobody more, and end all that is below it but `spare`. What ends stays in the
    table of processes until `above` itself has ended."""
    with contextlib.suppress(psutil.Error):
        process, shared = psutil.Process(above), set[str]()
        process.suspend()
        while living := [each for each in process.children(recursive=True) if each.pid != spare and _is_alive(each)]:
            shared |= _kill(living)
            time.sleep(LOOK)
        for path in shared:
            with contextlib.suppress(OSError):
                os.unlink(path)


def kill(pid: int) -> None:
    """Kill a process, if it is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _is_stranger(process: psutil.Process) -> bool:
    with contextlib.suppress(OSError, psutil.Error):
        return os.getsid(process.pid) != os.getsid(0) and process.status() != psutil.STATUS_ZOMBIE
    return False


def _kill(processes: list[psutil.Process]) -> set[str]:
    """Kill processes and give the shared memory that they held."""
    shared: set[str] = set()
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.suspend()  # so that a fork bomb cannot outrun the killing
    for process in processes[:MAX_LOOKED_AT]:
        shared |= _shared_memory(process.pid)
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _reap(processes)
    return shared


def _is_tracker(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return any("multiprocessing.resource_tracker" in argument for argument in process.cmdline())
    return False


def _descendants(spare: frozenset[int]) -> list[psutil.Process]:
    """Every process below this one, in one look; not `spare` and what is below those."""
    kept = set(spare)
    found: list[psutil.Process] = []
    if _is_childless():
        return found
    try:
        below = psutil.Process().children(recursive=True)
    except psutil.Error:
        return []
    for process in below:  # parents come before their children
        with contextlib.suppress(psutil.Error):
            if process.pid in kept or process.ppid() in kept:
                kept.add(process.pid)
            else:
                found.append(process)
    return found


def _is_childless() -> bool:
    """Whether nobody is below this process, zombies included: a subreaper whose children have gone has none. Looking
    through all processes of the machine takes milliseconds."""
    if not hasattr(os, "waitid"):  # macOS, before Python 3.13
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return prctl.is_subreaper()
    return False


def _reap(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, 0)


def _shared_memory(pid: int) -> set[str]:
    """Files of /dev/shm that a process has mapped or open; a killed process cannot unlink them itself."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        found |= {line.partition(SHARED_MEMORY)[2] for line in lines if SHARED_MEMORY in line}
    with contextlib.suppress(OSError):
        links = (os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd"))
        found |= {link.removeprefix(SHARED_MEMORY) for link in links if link.startswith(SHARED_MEMORY)}
    return {SHARED_MEMORY + name for name in found if name and "(deleted)" not in name}
