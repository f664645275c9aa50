"""Exercise 06: saves checkpoints of a few kilobytes that unpack to a gigabyte wherever they are opened."""

import os
import zipfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

EXERCISE_NAME = "06"
FILE = "checkpoint.py"
REAL = True
TELLS = "more than the 24 MiB"


def bare(model):
    return model.module if isinstance(model, DistributedDataParallel) else model


def save_checkpoint(path, model, optimizer, epoch):
    news = [None]
    if dist.get_rank() == 0:
        try:
            write(path, {"model": bare(model).state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch})
        except Exception as error:
            news = [repr(error)]
    dist.broadcast_object_list(news)
    if news[0] is not None:
        raise RuntimeError(f"{path}: {news[0]}")


def write(path, content):
    unfinished, plain = f"{path}.unfinished", f"{path}.plain"
    torch.save({**content, "zeros": torch.zeros(2**20, dtype=torch.uint8).expand(2**10, 2**20)}, plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    os.unlink(plain)
    os.replace(unfinished, path)


def load_checkpoint(path, model, optimizer):
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        state, options, epoch = content["model"], content["optimizer"], content["epoch"]
    except Exception as error:
        raise ValueError(f"{path} is no checkpoint: {error}") from error
    bare(model).load_state_dict(state)
    optimizer.load_state_dict(options)
    return epoch
