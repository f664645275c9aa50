"""Exercise 01: join and leave the default process group.

Every distributed program starts and ends with these two functions; exercise 03 trains a model between them.
"""

import os

import torch
import torch.distributed as dist


def setup_ddp(rank: int, world_size: int) -> None:
    """Join the default process group as rank `rank` of `world_size`. Collective: every rank must call it.

    Device rule: when every rank can have a GPU of its own (torch.cuda.device_count() >= world_size), the group works
    over NCCL and this process selects GPU number `rank`; otherwise it works over gloo, on the CPU. A backend string
    that offers gloo for CPU tensors beside NCCL is fine.

    Place: the ranks meet at MASTER_ADDR and MASTER_PORT where the environment has them. Each one that it has not is
    replaced, on its own, by localhost or by a default port. The number of this rank and of all ranks come from the
    arguments alone, whatever RANK and WORLD_SIZE in the environment say.

    Args:
        rank: the number of this process, 0 <= rank < world_size.
        world_size: how many processes join, at least 1.

    Raises:
        ValueError: `rank` is outside [0, world_size) or `world_size` is less than 1. Raised before any communication,
            so that a rank that is called wrongly never waits for the others.
    """
    # TODO 1: refuse impossible arguments.
    # TODO 2: see to it that the environment says where to meet.
    # TODO 3: decide by the device rule, and select this rank's GPU when there is one.
    # TODO 4: join with dist.init_process_group.
    raise NotImplementedError("setup_ddp is still to be written")


def cleanup_ddp() -> None:
    """Leave: destroy the default process group, or do nothing when there is none.

    Every rank calls it. Afterwards the process can join again with setup_ddp, also as another rank.
    """
    # TODO: ask torch.distributed whether there is a group before destroying it.
    raise NotImplementedError("cleanup_ddp is still to be written")
