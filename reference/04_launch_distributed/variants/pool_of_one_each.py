"""A ProcessPoolExecutor with one worker for each rank: one pool for all could give two ranks to the same worker."""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from typing import Any

import torch.multiprocessing as mp


def run_rank(port: int, fn: Callable[..., Any], rank: int, world_size: int, args: tuple[Any, ...]) -> Any:
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)
    try:
        return fn(rank, world_size, *args)
    except BaseException:
        raise RuntimeError(f"rank {rank} failed:\n{traceback.format_exc()}") from None


def kill_workers(pool: ProcessPoolExecutor) -> None:
    for process in list((pool._processes or {}).values()):
        process.kill()


def launch_distributed(world_size: int, fn: Callable[..., Any], *args: Any) -> list[Any]:
    if world_size < 1:
        raise ValueError("at least one rank is needed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    with ExitStack() as stack:
        pools = [stack.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(world_size)]
        futures: list[Future[Any]] = []
        try:
            for rank, pool in enumerate(pools):
                futures.append(pool.submit(run_rank, port, fn, rank, world_size, args))
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            for pool in pools:
                kill_workers(pool)
            raise
