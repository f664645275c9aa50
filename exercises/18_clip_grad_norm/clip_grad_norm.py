"""Exercise 18: clip gradients whose shards lie on several ranks. Read README.md first.

The process group is up. Each rank has parameters of its own, shards of a model that no rank has as a whole.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist


def clip_grad_norm_sharded_(
    parameters: Iterable[torch.Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Scale the gradients of all ranks' shards in place, so that their norm together is at most max_norm. Collective:
    every rank of the group calls it, those without parameters as well. For more ranks than one it costs exactly one
    small collective.

    Args:
        parameters: this rank's parameters, in a list, a generator or the like; of any floating dtype and any number of
            elements, none included. `grad` may be None. Other ranks have others, in other numbers and dtypes.
        max_norm: the largest norm that is left as it is, a number >= 0.
        norm_type: 2.0 for the L2 norm, `math.inf` for the largest magnitude. Any other is right or raises ValueError.
        group: the ranks that hold the shards; None is the default group.

    Returns:
        The norm over all shards of all ranks before clipping, as a tensor of one element, on every rank; as accurate as
        the widest dtype of all ranks' gradients.
    """
    # TODO 1: one number for all gradients of this rank. What if it has none?
    # TODO 2: from the numbers of all ranks the norm over everything, by one collective.
    # TODO 3: the factor max_norm / (norm + 1e-6), the same on all ranks, where the norm is too large.
    raise NotImplementedError("clip_grad_norm_sharded_ is yours to write")
