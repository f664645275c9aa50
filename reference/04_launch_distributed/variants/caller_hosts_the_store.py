"""The caller itself hosts the store at which the ranks meet, as torchrun's agent does, and gives its port to all."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from torch.distributed import TCPStore

SPAWN = get_context("spawn")


def launch_distributed(world_size: int, fn: Callable[..., Any], *args: Any) -> list[Any]:
    if world_size < 1:
        raise ValueError("world_size < 1")
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    call, ends, ranks = pickle.dumps((fn, args)), [], []
    try:
        for number in range(world_size):
            end, sender = SPAWN.Pipe(duplex=False)
            ranks.append(SPAWN.Process(target=run_rank, args=(number, world_size, store.port, sender, call)))
            ranks[-1].start()
            sender.close()
            ends.append(end)
        return collected(ends)
    except BaseException:
        for rank in ranks:
            rank.kill()
        raise
    finally:
        for rank in ranks:
            rank.join()


def collected(ends: list[Connection]) -> list[Any]:
    """The results in rank order, heard as they come."""
    results: dict[int, Any] = {}
    while len(results) < len(ends):
        for end in wait([end for number, end in enumerate(ends) if number not in results]):
            number = ends.index(end)  # type: ignore[arg-type]
            try:
                succeeded, results[number] = pickle.loads(ends[number].recv_bytes())
            except (EOFError, OSError):
                raise RuntimeError(f"rank {number} ended without a result") from None
            if not succeeded:
                raise RuntimeError(f"rank {number} failed:\n{results[number]}")
    return [results[number] for number in range(len(ends))]


def run_rank(number: int, world_size: int, port: int, sender: Connection, call: bytes) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCHELASTIC_USE_AGENT_STORE="True")
    try:
        fn, args = pickle.loads(call)
        answer = pickle.dumps((True, fn(number, world_size, *args)))
    except BaseException:
        answer = pickle.dumps((False, traceback.format_exc()))
    sender.send_bytes(answer)
