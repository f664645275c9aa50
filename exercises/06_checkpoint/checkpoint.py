"""Exercise 06: checkpoints that survive a crash and fit any number of ranks. Read README.md first."""

import os

import torch
import torch.distributed as dist
from torch import nn


def save_checkpoint(
    path: str | os.PathLike[str], model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int
) -> None:
    """Write one checkpoint file. Collective: every rank calls this with the same path; rank 0 alone writes.

    The file is a dict with the keys "model", "optimizer" and "epoch" that loads with
    `torch.load(path, weights_only=True)`. An existing file is replaced. The default process group is up already.

    Args:
        path: where the file goes. Its folder exists.
        model: a bare model, or one wrapped in DistributedDataParallel; the keys in the file are the bare model's.
        optimizer: the optimizer of `model`; it is equal on all ranks, like the model.
        epoch: a number to keep with them; 0 is legal.

    When this returns, on any rank, the file is complete. A crash in the middle leaves the file that was there before.
    When saving raises on rank 0, it raises on every rank.
    """
    # TODO 1: let rank 0 alone write. Which keys does a wrapped model's state dict have, and which ones are wanted?
    # TODO 2: make sure that there is never half a file at `path`, whenever the process dies.
    # TODO 3: let no rank return before the file is complete.
    # TODO 4: what do the other ranks wait for if rank 0's write raises? Let every rank raise then.
    raise NotImplementedError("save_checkpoint is yours to write")


def load_checkpoint(path: str | os.PathLike[str], model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore `model` and `optimizer` in place from a file of `save_checkpoint`. Called by every rank, same path.

    Works for a bare and for a wrapped model, whichever was saved, on any number of ranks and on any device: the
    parameters stay on the device where they are.

    Returns:
        The epoch that was saved, on every rank.

    Raises:
        An error on every rank, whose message names the file, where the file is missing, cut off, or something other
        than a checkpoint. A file is data: code in it is never run.
    """
    # TODO 5: read the file so that it does not matter on which device, or on how many ranks, it was written.
    # TODO 6: put the values into the very objects that you were handed.
    # TODO 7: raise an error that names the file where there is none, or a broken or foreign one.
    raise NotImplementedError("load_checkpoint is yours to write")
