"""Plain subprocesses, pickles in files, and a loop that looks at all of them in turn."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHILD = "import pickle, sys; sys.path[:] = pickle.loads(bytes.fromhex(sys.argv[1])); import {module} as m; m.run_rank(sys.argv[2], int(sys.argv[3]))"  # fmt: skip # noqa: E501


def run_rank(folder: str, rank: int) -> None:
    """Runs in the child: reads the call, and leaves `rank.ok` or `rank.error`."""
    call = pickle.loads(Path(folder, "call").read_bytes())
    try:
        answer, kind = pickle.dumps(call["fn"](rank, call["world_size"], *call["args"])), "ok"
    except BaseException:
        answer, kind = pickle.dumps((time.monotonic(), traceback.format_exc())), "error"
    Path(folder, f"{rank}.part").write_bytes(answer)
    Path(folder, f"{rank}.part").rename(Path(folder, f"{rank}.{kind}"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check(folder: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    """Raises the earliest failure, if there is one."""
    errors = sorted(pickle.loads(path.read_bytes()) for path in folder.glob("*.error"))
    if errors:
        raise RuntimeError(errors[0][1])
    for rank, process in enumerate(processes):
        if process.poll() is not None and not list(folder.glob(f"{rank}.[oe]*")):
            raise RuntimeError(f"rank {rank} ended with {process.returncode} and left no result")


def launch_distributed(world_size: int, fn: Callable[..., Any], *args: Any) -> list[Any]:
    if world_size < 1:
        raise ValueError("world_size < 1")
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-c", CHILD.format(module=__name__), pickle.dumps(sys.path).hex()]
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "call").write_bytes(pickle.dumps({"fn": fn, "args": args, "world_size": world_size}))
        try:
            for rank in range(world_size):
                processes.append(subprocess.Popen([*command, name, str(rank)], env=environment))
            while any(process.poll() is None for process in processes):
                check(folder, processes)
                time.sleep(0.02)
            check(folder, processes)
        finally:
            for process in processes:
                process.send_signal(signal.SIGKILL)
                process.wait()
        return [pickle.loads((folder / f"{rank}.ok").read_bytes()) for rank in range(world_size)]
