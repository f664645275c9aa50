"""Rank 0 reads and sends to all; saving goes through memory, a named temporary file, and a status tensor."""

import io
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist


def inner(model):
    return model.module if type(model) is torch.nn.parallel.DistributedDataParallel else model


def status(code, device):
    """Rank 0's code on every rank."""
    flag = torch.tensor([code], dtype=torch.int64, device=device)
    dist.broadcast(flag, src=0)
    return int(flag)


def save_checkpoint(path, model, optimizer, epoch):
    device, problem = next(model.parameters()).device, None
    if dist.get_rank() == 0:
        try:
            buffer = io.BytesIO()
            states = {"model": inner(model).state_dict(), "optimizer": optimizer.state_dict(), "epoch": int(epoch)}
            torch.save(states, buffer)
            replace(Path(path), buffer.getvalue())
        except BaseException as error:
            problem = error
    if status(int(problem is not None), device):
        raise problem or RuntimeError(f"{path} was not saved; see rank 0")


def replace(path, data):
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as stream:
        try:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
            os.rename(stream.name, path)
        except BaseException:
            os.unlink(stream.name)
            raise


def load_checkpoint(path, model, optimizer):
    message = [None, None]
    if dist.get_rank() == 0:
        try:
            with open(path, "rb") as stream:
                states = torch.load(stream, map_location="cpu", weights_only=True)
            message[0] = [states["model"], states["optimizer"], states["epoch"]]
        except Exception as error:
            message[1] = f"{type(error).__name__}: {error}"
    dist.broadcast_object_list(message, src=0)
    if message[1] is not None:
        raise RuntimeError(f"cannot load {os.fspath(path)}: {message[1]}")
    weights, state, epoch = message[0]
    inner(model).load_state_dict(weights)
    optimizer.load_state_dict(state)
    return epoch
