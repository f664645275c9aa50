"""Five first functions of distributed programming.

A collective is a call that every rank makes, with a result that depends on what all of them put in. Three functions
here make one each. The other two are what one has to have in one's head before a fourth: who is next to whom, and what
becomes of ranks that do not call the same.

Source: the PyTorch page "Distributed communication package - torch.distributed", sections "Collective functions" and
"Object collectives".
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist


def total(value: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank; `value` stays as it is. Collective."""
    # A copy, since all_reduce writes the sum where the summand was. Without it the caller's loss, counter or gradient
    # has changed behind their back, and the next call adds up sums. A contiguous one, since NCCL takes no other.
    result = value.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(result)
    return result


def gather_in_order(value: Any) -> list[Any]:
    """All ranks' values in rank order, on every rank. Collective."""
    # The list is filled by rank number and not as messages arrive, so the order costs nothing. Objects are pickled on
    # the way: convenient, slow, and to be done among ranks that trust each other, since unpickling can run any code.
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def right_neighbour(rank: int, world_size: int) -> int:
    """The next rank on a ring: after the last comes rank 0, and a rank that is alone is its own neighbour."""
    return (rank + 1) % world_size


def average(values: dict[str, float]) -> dict[str, float]:
    """For each name the mean over the ranks. Collective."""
    # A dict keeps the order in which it was filled, and that may be another one on every rank. A collective knows
    # nothing of names: it adds the first number to the first. Sorted, all ranks mean the same by "first". One tensor
    # and one call for all of them, since a message costs much the same for one number as for a hundred.
    names = sorted(values)
    numbers = torch.tensor([values[name] for name in names], dtype=torch.float64)  # the default would be float32
    dist.all_reduce(numbers)
    means = numbers / dist.get_world_size()
    return dict(zip(names, means.tolist(), strict=True))


def stuck(calls: Mapping[int, list[str]]) -> bool:
    """Whether some rank waits for ever."""
    # If all lists are equal, everybody walks through them in step. If two differ, look at the first place where they
    # do: up to there all went well, and there one rank waits in a call that the other does not make, because it makes
    # another one or none at all. So the question is only whether all lists are equal.
    first, *others = calls.values()
    return any(other != first for other in others)
