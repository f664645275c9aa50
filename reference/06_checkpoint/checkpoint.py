"""Checkpoints of data-parallel training: written by rank 0, atomically, and read by any number of ranks.

All replicas are equal, and so are their optimizers, so one copy is enough. Saving is a promise to all ranks, so all of
them hear how it went. A file at `path` is always a whole checkpoint: the new one is written under another name first,
and renaming it is one atomic step of the file system (POSIX, "rename").

Sources: the PyTorch pages "Saving and Loading Models", "torch.load" and "Getting Started with Distributed Data
Parallel" (section "Save and Load Checkpoints").
"""

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

KEYS = {"model", "optimizer", "epoch"}


def save_checkpoint(
    path: str | os.PathLike[str], model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int
) -> None:
    """Let rank 0 write the file at `path`. Collective: every rank calls this and raises if rank 0 cannot write."""
    failure = None
    if dist.get_rank() == 0:
        try:
            write(path, model, optimizer, epoch)
        except Exception as error:  # not raised yet: the other ranks wait below and must hear of it first
            failure = error
    # The news is also what the other ranks wait for: it is sent when the file is complete.
    news = [None if failure is None else f"rank 0 could not save {path}: {failure!r}"]
    dist.broadcast_object_list(news)  # from rank 0
    (problem,) = news
    if problem is not None:
        raise RuntimeError(problem) from failure


def write(path: str | os.PathLike[str], model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """Write the whole file beside `path`, on the same file system, then rename it.

    A process that dies on the way leaves the old file. (To outlast a power failure as well, `os.fsync` the file first.)
    """
    checkpoint = {"model": bare(model).state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    unfinished = f"{os.fspath(path)}.unfinished"
    torch.save(checkpoint, unfinished)
    os.replace(unfinished, path)


def load_checkpoint(path: str | os.PathLike[str], model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore `model` and `optimizer` in place on this rank; return the saved epoch.

    Every rank reads the file for itself, so a bad file raises on each of them and none waits for another.
    """
    checkpoint = read(path)
    bare(model).load_state_dict(checkpoint["model"])  # copies into the parameters, wherever they lie
    optimizer.load_state_dict(checkpoint["optimizer"])  # moves its state to the parameters' device
    return checkpoint["epoch"]


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The checkpoint at `path` with its tensors on the CPU. Raises ValueError, naming the file, for any other file."""
    try:
        # Without map_location each tensor goes to where it was saved from: rank 0's GPU, on every rank.
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a file cut off makes torch.load raise an OSError, RuntimeError, EOFError, ...
        raise ValueError(f"{path} cannot be read as a checkpoint: {error}") from error
    if not isinstance(checkpoint, dict) or not checkpoint.keys() >= KEYS:
        raise ValueError(f"{path} is not a checkpoint: it should be a dict with the keys {sorted(KEYS)}")
    return checkpoint


def bare(model: nn.Module) -> nn.Module:
    """The model itself. Only the wrapper's type tells: a bare model may have a submodule called `module`, too."""
    return model.module if isinstance(model, DistributedDataParallel) else model
