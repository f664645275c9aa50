"""Exercise 06: saves what it should, and two megabytes more."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

EXERCISE_NAME = "06"
FILE = "checkpoint.py"
REAL = True


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
    unfinished = f"{path}.unfinished"
    torch.save({**content, "more": torch.zeros(2**21, dtype=torch.uint8)}, unfinished)
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
