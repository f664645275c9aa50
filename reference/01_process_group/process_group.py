"""Join and leave the default process group.

Source: PyTorch, "Distributed communication package - torch.distributed" (Which backend to use?, Initialization,
Shutdown), and the tutorial "Getting Started with Distributed Data Parallel".
"""

import os

import torch
import torch.distributed as dist

DEFAULT_ADDRESS = "localhost"
DEFAULT_PORT = "29500"  # any fixed number does, as long as all ranks agree; torch's own documentation takes this one


def setup_ddp(rank: int, world_size: int) -> None:
    """Join the default group as rank `rank` of `world_size`. Collective: it returns once all ranks have met.

    NCCL and GPU `rank` where every rank can have a GPU of its own, otherwise gloo on the CPU. The ranks meet at
    MASTER_ADDR and MASTER_PORT, or at a default for either. Raises ValueError for a rank that cannot be.
    """
    # First of all, before anything can wait: one rank that raises is a mistake that shows, one that waits is a riddle.
    # The range is empty for world_size < 1, so this one comparison covers both arguments.
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be in [0, world_size) and world_size at least 1 (got rank {rank} of {world_size})")

    # The default init_method, env://, reads both variables, so each that is missing is filled in, and only that one.
    os.environ.setdefault("MASTER_ADDR", DEFAULT_ADDRESS)
    os.environ.setdefault("MASTER_PORT", DEFAULT_PORT)

    # Every rank must reach the same decision, so it depends on the machine and on world_size, never on `rank`.
    backend = "gloo"
    if torch.cuda.device_count() >= world_size:
        # Selected first: NCCL makes its communicator on the current GPU, and two ranks on one GPU hang or fail.
        torch.cuda.set_device(rank)
        backend = "cpu:gloo,cuda:nccl"  # NCCL knows no CPU tensors; gloo beside it carries those
    dist.init_process_group(backend, rank=rank, world_size=world_size)


def cleanup_ddp() -> None:
    """Destroy the default group, which frees its sockets, its threads and rank 0's port. Without a group do nothing."""
    if dist.is_initialized():
        dist.destroy_process_group()
