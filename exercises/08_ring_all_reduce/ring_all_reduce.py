"""Exercise 08: all-reduce by messages between neighbours. Read README.md first.

The process group is up when your function is called. Collectives of torch.distributed are what you build here, so they
are not for use: messages between two ranks are.
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
    """Add up a tensor over the ranks of a group, in place. Collective: every rank of the group calls it.

    A rank sends to its right neighbour in the group only: at most 2(N - 1) messages, which together have at most
    2(N - 1) * ceil(numel / N) elements.

    Args:
        tensor: this rank's tensor, of any integer or floating dtype, on the device of the group's backend. Any shape
            and any strides: it may be a view with gaps, have no dimensions, or no elements. Shape and dtype are the
            same on all ranks of the group. It requires no gradient. Afterwards it holds the sum, the same bits on
            every rank.
        group: the ranks that take part; None is the default group. A rank has another number in a group than in the
            job: `dist.get_rank(group)`, and the argument `group_dst` of `dist.send` and `dist.isend`.
    """
    # TODO 1: look at the tensor as one row of elements, whatever its shape and strides, cut into N chunks.
    # TODO 2: reduce-scatter. N - 1 times: send a chunk to the right, receive one from the left, add it to your own.
    # TODO 3: all-gather. N - 1 times: send a finished chunk to the right, receive one from the left, keep it.
    # TODO 4: the caller looks at `tensor`. Is the sum there?
    raise NotImplementedError("ring_all_reduce is yours to write")
