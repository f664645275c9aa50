"""A notebook's launcher: a callable object sets a rank's variables, and a manager's board holds what each one says."""

from __future__ import annotations

import os
import pickle
import socket
import traceback
from collections.abc import Callable, MutableMapping
from multiprocessing.connection import wait
from typing import Any

import torch.multiprocessing as mp

Board = MutableMapping[Any, Any]


class PrepareForLaunch:
    """What a process calls with its number: sets the variables, runs the function, pins what came of it to a board."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], world_size: int, port: int) -> None:
        self.fn, self.args, self.world_size, self.port = fn, args, world_size, port

    def __call__(self, index: int, board: Board) -> None:
        os.environ["WORLD_SIZE"] = str(self.world_size)
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        os.environ["MASTER_PORT"] = str(self.port)
        os.environ["LOCAL_RANK"] = os.environ["RANK"] = str(index)
        try:
            board[index] = pickle.dumps(self.fn(index, self.world_size, *self.args))
        except BaseException:
            board.setdefault("failure", f"rank {index} raised\n{traceback.format_exc()}")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def watch(processes: list[Any], board: Board) -> None:
    """Waits for all of them. Raises as soon as one has failed, or has ended and pinned nothing."""
    left = dict(enumerate(processes))
    while left:
        wait([process.sentinel for process in left.values()], timeout=0.1)
        if "failure" in board:
            raise RuntimeError(board["failure"])
        ended = [index for index, process in left.items() if not process.is_alive()]
        for index in ended:
            if index not in board:
                raise RuntimeError(f"rank {index} ended with {left[index].exitcode} and has no result")
            del left[index]


def launch_distributed(world_size: int, fn: Callable[..., Any], *args: Any) -> list[Any]:
    if world_size <= 0:
        raise ValueError(f"cannot launch {world_size} processes")
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    launcher = PrepareForLaunch(fn, args, world_size, free_port())
    with context.Manager() as manager:
        board = manager.dict()
        processes = [context.Process(target=launcher, args=(index, board)) for index in range(world_size)]
        try:
            for process in processes:
                process.start()
            watch(processes, board)
            return [pickle.loads(board[index]) for index in range(world_size)]
        finally:
            for process in processes:
                if process.pid is not None:
                    process.kill()
                    process.join()
