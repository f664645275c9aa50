"""What mp.spawn is made of: start_processes, which knows how to fail, and a file for each rank's result."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp


def run_rank(rank: int, world_size: int, port: int, folder: str, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Calls fn and leaves its result in a file; the process context brings home what it raises."""
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.save(fn(rank, world_size, *args), Path(folder, f"saving{rank}"))
    Path(folder, f"saving{rank}").rename(Path(folder, f"{rank}.pt"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def refuse_silence(processes: list[Any], results: list[Path]) -> None:
    """Exit code 0 is no failure to torch, so it would wait for the others, which may wait for this rank for ever."""
    for rank, (process, path) in enumerate(zip(processes, results, strict=True)):
        if not process.is_alive() and not path.exists():
            for each in processes:
                each.kill()
                each.join()
            raise RuntimeError(f"rank {rank} ended without a result")


def launch_distributed(world_size: int, fn: Callable[..., Any], *args: Any) -> list[Any]:
    if world_size < 1:
        raise ValueError(f"world_size must be positive, got {world_size}")
    mp.set_forkserver_preload(["torch"])
    with tempfile.TemporaryDirectory() as folder:
        call = (world_size, free_port(), folder, fn, args)
        context = mp.start_processes(run_rank, call, world_size, join=False, start_method="forkserver")
        results = [Path(folder, f"{rank}.pt") for rank in range(world_size)]
        while not context.join(grace_period=1.0):  # comes back whenever a process has ended
            refuse_silence(context.processes, results)
        refuse_silence(context.processes, results)
        return [torch.load(path, weights_only=False) for path in results]
