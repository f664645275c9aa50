"""Start one process per rank, hand them a meeting point, and bring their results or their first failure home.

Reserve a port at which the ranks can meet, start `world_size` processes that share nothing with this one, wait for
whatever comes first from any rank, a result or a death, and whatever happened, see every process to its end. Follows
"Multiprocessing best practices" of the PyTorch documentation, with the standard library alone, so that each step shows.
"""

from __future__ import annotations

import os
import pickle
import socket
import traceback
from collections.abc import Callable
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
    with reserve_port() as holder:
        port = holder.getsockname()[1]
        try:
            for number in range(world_size):
                ranks.append(start(number, world_size, port, call))
            return collect(ranks)
        except BaseException:  # Ctrl-C in the caller as well: no rank may survive it
            for rank in ranks:
                rank.process.kill()  # not terminate(): SIGTERM only asks
            raise
        finally:
            for rank in ranks:
                rank.process.join()  # a dead process that nobody has waited for is a zombie


def reserve_port() -> socket.socket:
    """A socket whose TCP port nobody else is given until it is closed.

    Asking the system for port 0 gives a free one. Closing the socket at once would let another launch get the same
    number before rank 0 listens on it. So the socket stays bound, without listening, and SO_REUSEADDR, set after
    the bind, lets exactly such a bound but silent socket share its port with rank 0's store.
    """
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
    return holder


def start(number: int, world_size: int, port: int, call: bytes) -> Rank:
    """Starts one rank.

    Not by a bare fork: the child would inherit this process's CUDA context, and locks held by threads that do not
    exist in it. A fork server is a clean process that imports torch once and forks from there, so that the second
    rank starts in milliseconds; "spawn" is as right, and imports torch anew in each rank.
    Not as a daemon either: daemons may not have children, and a DataLoader wants some.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    outcome, sender = context.Pipe()
    process = context.Process(target=run_rank, args=(number, world_size, port, sender, call))
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
    """The results in rank order. Listens to all ranks at once, so that a failure is heard when it happens and a large
    result never blocks in a full pipe. Raises RankFailed for the first rank that fails."""
    results: dict[int, Any] = {}
    waiting: dict[Any, Rank] = {rank.outcome: rank for rank in ranks}
    waiting.update({rank.process.sentinel: rank for rank in ranks})
    while waiting:
        rank = waiting[wait(waiting)[0]]
        results[rank.number] = receive(rank)
        del waiting[rank.outcome], waiting[rank.process.sentinel]
    return [results[number] for number in range(len(ranks))]


def receive(rank: Rank) -> Any:
    """The result of a rank that has spoken or died. Raises RankFailed."""
    try:
        if not rank.outcome.poll():  # the rank is dead, but a child of its own keeps the pipe open: do not wait for it
            raise EOFError
        message = rank.outcome.recv_bytes()
    except (EOFError, OSError):  # OSError: it died in the middle of its message
        rank.process.join()
        message = pickle.dumps((False, f"ended without a result, with exit code {rank.process.exitcode}"))
    succeeded, value = pickle.loads(message)
    if not succeeded:
        raise RankFailed(f"rank {rank.number} failed: {value}")
    return value
