"""Exercise 04: start a process for each rank, and bring home the results or the first failure.

Read README.md for the contract. Run `make grade EX=04` to see how far you are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def launch_distributed(world_size: int, fn: Callable[..., Any], *args: Any) -> list[Any]:
    """Runs `fn(rank, world_size, *args)` in `world_size` new processes and returns their results in rank order.

    Called by one ordinary process, which is no rank itself and may have used torch's threads and CUDA before.

    Args:
        world_size: How many processes to start, one for each rank from 0 to `world_size - 1`.
        fn: A picklable function of an importable module.
        args: Further arguments, picklable, handed to `fn` behind `rank` and `world_size` in this order.

    Every rank finds MASTER_ADDR and MASTER_PORT in its environment before `fn` is called: the same ones in all ranks
    of this launch, with a port that is free and that no other launch uses at the same time.

    Returns:
        A list of `world_size` results; entry r is what rank r returned (a tensor, a module, None, …), whichever rank
        was ready first.

    Raises:
        ValueError: `world_size < 1`; nothing is started.
        Exception: of a type of your choice, as soon as a rank raises or dies without a result (`os._exit`, a signal),
            even when the others sit in a collective. Its text holds the message of the rank that failed first.

    No rank process is alive, or a zombie, when this function returns or raises.
    """
    # TODO 1: refuse a world_size below 1.
    # TODO 2: find a free port, anew for each launch.
    # TODO 3: start the processes, not by a bare fork; let each one set its environment, call fn, and send its outcome.
    # TODO 4: wait for whichever rank speaks or dies first, not for rank 0 first.
    # TODO 5: on every way out, end and join what is still alive.
    raise NotImplementedError("launch_distributed is not written yet")
