"""What a rank process is before student code comes: a private folder, captured output, no input, one thread."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import random
import signal
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.ranks import reaper

STACK_SIGNAL = getattr(signal, "SIGUSR2", None)


def close_others(ends: list[tuple[Any, Any]], index: int) -> None:
    for other, pair in enumerate(ends):
        if other != index:
            for end in pair:
                end.close()


def set_scene(index: int, spec: Mapping[str, Any], output: Any) -> None:
    """A private folder, captured output, no input, one thread, a `__main__` that is not ours."""
    reaper.die_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    scratch = Path(spec["scratch"]) / f"rank{index}"
    os.chdir(scratch)
    for name in ("HOME", "TMPDIR"):
        os.environ[name] = str(scratch)
    _apply_environment(spec)
    _redirect(output)
    _limit()
    if STACK_SIGNAL is not None:
        faulthandler.register(STACK_SIGNAL, file=_stack_file(scratch), all_threads=True, chain=False)
    multiprocessing.set_start_method(None, force=True)  # undecided, as in an interpreter of the student's own
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = ["rank"]
    sys.path[:] = [spec["code"], *[entry for entry in sys.path if entry and entry != str(Path.cwd())]]
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(spec["seed"] + index)
    random.seed(spec["seed"] + index)


def _stack_file(scratch: Path) -> Any:
    return (scratch.parent / f"stack{scratch.name.removeprefix('rank')}").open("w")


def _apply_environment(spec: Mapping[str, Any]) -> None:
    port = str(spec["port"])
    given = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "RANKLINGS_PORT": port, **spec["environment"]}
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


def _limit() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
