"""What a rank process is before student code comes: a private folder, captured output, no input, one thread."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grader.kit import prctl
from grader.ranks.inside import limits, seccomp
from grader.ranks.inside.scene import Scene

MAX_DESCRIPTORS = 4096
STACK_SIGNAL = getattr(signal, "SIGUSR2", None)


def open_descriptors() -> list[int]:
    """Every descriptor of this process but input, output and errors."""
    try:
        numbers = list(map(int, os.listdir("/dev/fd")))  # Linux and macOS; asking for each of thousands takes 20 ms
    except OSError:
        numbers = list(range(min(os.sysconf("SC_OPEN_MAX"), MAX_DESCRIPTORS)))
    return [number for number in numbers if number > 2 and _is_open(number)]


def _is_open(number: int) -> bool:
    with contextlib.suppress(OSError):
        os.fstat(number)
        return True
    return False


def close_others(inherited: Iterable[int], channel: Any, output: Any) -> None:
    """Of the supervisor's descriptors keep this rank's own and close the rest, the judge's connection among them."""
    for number in set(inherited) - {channel.fileno(), output.fileno()}:
        with contextlib.suppress(OSError):
            os.close(number)


def set_up(index: int, scene: Scene, output: Any) -> None:
    """A private folder, captured output, no input, limits, one thread, a `__main__` that is not ours."""
    prctl.die_with_parent()
    prctl.show()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    scratch = Path(scene.scratch) / f"rank{index}"
    os.chdir(scratch)
    for name in ("HOME", "TMPDIR"):
        os.environ[name] = str(scratch)
    tempfile.tempdir = None  # the host may have asked where it is, and ranks of several runs would share that
    _apply_environment(scene)
    _redirect(output)
    limits.limit(scene.bounds)
    _take_turns()
    seccomp.install()
    if STACK_SIGNAL is not None:
        faulthandler.register(STACK_SIGNAL, file=_stack_file(scratch), all_threads=True, chain=False)
    multiprocessing.set_start_method(None, force=True)  # undecided, as in an interpreter of the student's own
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = ["rank"]
    sys.path[:] = [scene.code, *sys.path]
    import torch

    from grader.kit import values

    torch.set_num_threads(1)
    values.seed_generators(scene.seed + index)


def _stack_file(scratch: Path) -> Any:
    return (scratch.parent / f"stack{scratch.name.removeprefix('rank')}").open("w")


def _take_turns() -> None:
    """Do not interrupt another rank when a message has come, but wait for its turn to end (SCHED_BATCH, for all threads
    and processes that come of this one). Who sends holds gloo's lock of that connection; where the receiver takes the
    core away at that moment, the sender's own gloo_tcp_loop asks for the lock until its turn is over. On two cores
    all-reduces then take 1.5 to 2.9 times as long."""
    if hasattr(os, "sched_setscheduler"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _apply_environment(scene: Scene) -> None:
    port = str(scene.port)
    given = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "RANKLINGS_PORT": port, **scene.environment}
    for name, value in given.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)


def _redirect(output: Any) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for target in (1, 2):
        os.dup2(output.fileno(), target)
    output.close()
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
