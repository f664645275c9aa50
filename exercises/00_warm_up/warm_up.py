"""Exercise 00: your first collectives. Read README.md first; each function is graded alone.

The process group is up when your functions are called. `dist.get_rank()` is this rank's number, and
`dist.get_world_size()` says how many ranks there are.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist


def total(value: torch.Tensor) -> torch.Tensor:
    """Add up a tensor over all ranks. Collective: every rank calls it.

    Args:
        value: this rank's tensor, float32, float64, int32 or int64, of any shape; the same dtype and shape on every
            rank. It is left as it is.

    Returns:
        The sum over all ranks, of the same dtype and shape, on every rank.
    """
    # TODO: one collective adds up in place. Whose memory is `value`?
    raise NotImplementedError("total is yours to write")


def gather_in_order(value: Any) -> list[Any]:
    """Collect a value of every rank. Collective: every rank calls it.

    Args:
        value: any object that can be pickled. Other ranks may have one of another type and size.

    Returns:
        The values of all ranks on every rank: rank 0's first, then rank 1's, and so on.
    """
    # TODO: there is a collective for Python objects. It fills a list that you give it.
    raise NotImplementedError("gather_in_order is yours to write")


def right_neighbour(rank: int, world_size: int) -> int:
    """The rank that comes after `rank` on a ring of ranks 0 to `world_size` - 1. No communication.

    Args:
        rank: 0 <= rank < world_size.
        world_size: at least 1.
    """
    # TODO: who comes after the last one?
    raise NotImplementedError("right_neighbour is yours to write")


def average(values: dict[str, float]) -> dict[str, float]:
    """Average some numbers over the ranks, each under its own name. Collective: every rank calls it.

    Args:
        values: this rank's numbers by name, such as {"loss": 0.7, "accuracy": 0.9}. All ranks have the same names, each
            in an order of its own. It is left as it is.

    Returns:
        For each name the mean over the ranks, a Python float, as exact as Python's floats are.
    """
    # TODO 1: bring the names into an order that is the same on every rank.
    # TODO 2: put the numbers into one tensor, in that order. What is its dtype?
    # TODO 3: add up over the ranks, divide, and give each name its number.
    raise NotImplementedError("average is yours to write")


def stuck(calls: Mapping[int, list[str]]) -> bool:
    """Whether some rank waits for ever. No communication: think about the ranks, do not ask them.

    A call finishes on a rank when every rank of the group has made the same call at the same place in its list; until
    then the rank waits in it.

    Args:
        calls: for each rank of one group the names of the collectives that it calls, in order, such as
            {0: ["broadcast", "all_reduce"], 1: ["broadcast"]}. There is at least one rank. It is left as it is.

    Returns:
        True where not all of the calls can finish, otherwise False.
    """
    # TODO: when does everybody come to the end?
    raise NotImplementedError("stuck is yours to write")
