"""Start one process per rank, hand them a meeting point, and bring their results or their first failure home.

Reserve a port at which the ranks can meet, start `world_size` processes that share nothing with this one, wait for
whatever comes first from any rank, a result or a death, and whatever happened, see every process to its end. Follows
"Multiprocessing best practices" of the PyTorch documentation, with the standard library alone, so that each step shows.
"""

from __future__ import annotations

import os
import pickle
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple


class RankFailed(RuntimeError):
    """A rank raised, or ended without a result. The text names the rank and holds its traceback."""


class Rank(NamedTuple):
    """One started process and the end of the pipe on which its outcome will arrive."""

    number: int
    process: BaseProcess
    outcome: Connection


def launch_distributed(world_size: int, fn: Callable[..., Any], *args: Any) -> list[Any]:
    """Runs `fn(rank, world_size, *args)` in `world_size` new processes and returns their results in rank order.

    Raises ValueError if `world_size < 1` and RankFailed, with the traceback of the rank that failed first, as soon
    as a rank raises or dies. No rank is alive, or a zombie, when this function returns or raises.
    """
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")
    call = pickle.dumps((fn, args))  # one copy for each rank: nothing is shared by accident
    ranks: list[Rank] = []
    with reserved_port() as port:
        try:
            for number in range(world_size):
                ranks.append(start(number, world_size, port, call))
            results = collect(ranks)
        except BaseException:  # Ctrl-C in the caller as well: no rank may survive it
            stop(ranks, grace=1.0, ask=True)
            raise
        stop(ranks, grace=10.0, ask=False)
        return results


@contextmanager
def reserved_port() -> Iterator[int]:
    """A free TCP port of this machine that nobody else is given while the block runs.

    Asking the system for port 0 gives a free one. Closing the socket at once would let another launch get the same
    number before rank 0 listens on it. So the socket stays bound, without listening, and SO_REUSEADDR, set after
    the bind, lets exactly such a bound but silent socket share its port with rank 0's store.
    """
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield holder.getsockname()[1]


def start(number: int, world_size: int, port: int, call: bytes) -> Rank:
    """Starts one rank.

    Not by a bare fork: the child would inherit this process's CUDA context, and locks held by threads that do not
    exist in it. A fork server is a clean process that imports torch once and forks from there, so that the second
    rank starts in milliseconds; "spawn" is as right, and imports torch anew in each rank.
    Not as a daemon either: daemons may not have children, and a DataLoader wants some.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    outcome, sender = context.Pipe(duplex=False)
    process = context.Process(target=run_rank, args=(number, world_size, port, sender, call), name=f"rank {number}")
    process.start()
    sender.close()  # the rank holds the only writing end now, so its death closes the pipe
    return Rank(number, process, outcome)


def run_rank(number: int, world_size: int, port: int, sender: Connection, call: bytes) -> None:
    """Runs in the new process: calls the function and sends (True, result) or (False, traceback) home.

    Pickles before it sends, so that a result that cannot be pickled is an error of this rank, and tensors travel by
    value: torch's own reduction would send a file descriptor that dies with this process.
    """
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    try:
        fn, args = pickle.loads(call)
        message = pickle.dumps((True, fn(number, world_size, *args)))
    except BaseException:  # sys.exit too is an end without a result
        message = pickle.dumps((False, traceback.format_exc()))  # text: an exception object may not survive pickling
    sender.send_bytes(message)


def collect(ranks: list[Rank]) -> list[Any]:
    """The results in rank order. Reads whichever rank is ready first, so that a failure is seen at once and a large
    result never blocks in a full pipe. Raises RankFailed for the first rank that fails."""
    results: dict[int, Any] = {}
    while len(results) < len(ranks):
        missing = [rank for rank in ranks if rank.number not in results]
        ready = wait([rank.outcome for rank in missing] + [rank.process.sentinel for rank in missing])
        for rank in missing:
            if rank.outcome in ready or rank.process.sentinel in ready:
                results[rank.number] = receive(rank)
    return [results[number] for number in range(len(ranks))]


def receive(rank: Rank) -> Any:
    """The result of a rank that has spoken or died. Raises RankFailed."""
    try:
        # A dead rank whose own child keeps the pipe open sends no end of file: do not read where nothing is waiting.
        message = rank.outcome.recv_bytes() if rank.outcome.poll() else b""
    except (EOFError, OSError):
        message = b""
    if not message:
        rank.process.join()
        raise RankFailed(f"rank {rank.number} ended without a result, {describe_exit(rank.process.exitcode)}")
    succeeded, value = pickle.loads(message)
    if not succeeded:
        raise RankFailed(f"rank {rank.number} raised\n\n{value}")
    return value


def describe_exit(code: int | None) -> str:
    return f"killed by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"


def stop(ranks: list[Rank], grace: float, ask: bool) -> None:
    """Sees every process to its end: SIGTERM if `ask`, then `grace` seconds for all of them together, then SIGKILL,
    which cannot be ignored; and joins each one, because a dead process that nobody has waited for is a zombie."""
    if ask:
        for rank in ranks:
            rank.process.terminate()
    deadline = time.monotonic() + grace
    for rank in ranks:
        rank.process.join(max(0.0, deadline - time.monotonic()))
    for rank in ranks:
        rank.process.kill()
        rank.process.join()
        rank.outcome.close()
