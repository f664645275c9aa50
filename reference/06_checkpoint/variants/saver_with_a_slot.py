"""A saver as training scripts for images have it: one fixed temporary name in the folder.

The folder is this job's own, so one name for whatever is being written will do, and what a crash has left there is
simply written over by the next save.
"""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DataParallel, DistributedDataParallel


def unwrap(model):
    return model.module if isinstance(model, DataParallel | DistributedDataParallel) else model


class Saver:
    """Writes to one slot of a folder and renames what is there."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.slot = os.path.join(os.path.dirname(self.path), "tmp.pth.tar")

    def save(self, model, optimizer, epoch):
        state = {
            "arch": type(unwrap(model)).__name__.lower(),
            "epoch": epoch,
            "model": unwrap(model).state_dict(),
            "optimizer": optimizer.state_dict(),
            "version": 2,
        }
        torch.save(state, self.slot)
        os.replace(self.slot, self.path)


def save_checkpoint(path, model, optimizer, epoch):
    error = None
    if dist.get_rank() == 0:
        try:
            Saver(path).save(model, optimizer, epoch)
        except Exception as caught:
            error = caught
    errors = [None] * dist.get_world_size()
    dist.all_gather_object(errors, error and f"{type(error).__name__}: {error}")
    if errors[0]:
        raise RuntimeError(f"{path} was not saved: {errors[0]}") from error


def load_checkpoint(path, model, optimizer):
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no checkpoint found at {path!r}")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        state, epoch = checkpoint["model"], checkpoint["epoch"]
        moments = checkpoint["optimizer"]
    except Exception as error:
        raise ValueError(f"{path!r} is no checkpoint") from error
    unwrap(model).load_state_dict(state)
    optimizer.load_state_dict(moments)
    return epoch
