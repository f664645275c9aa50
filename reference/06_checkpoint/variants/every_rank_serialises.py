"""All ranks take the state dicts to the CPU, rank 0 writes by system calls; an all-reduce counts the failures."""

import contextlib
import io
import os
import time

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_map


def save_checkpoint(path, model, optimizer, epoch):
    failure, data = None, None
    try:
        data = serialised(model, optimizer, epoch)
        if dist.get_rank() == 0:
            write(os.path.abspath(path), data)
    except Exception as error:
        failure = error
    failures = torch.tensor(float(failure is not None), device=next(model.parameters()).device)
    dist.all_reduce(failures)
    if failures:
        raise failure if failure is not None else OSError(f"another rank could not save {path}")


def serialised(model, optimizer, epoch):
    weights = getattr(model, "module", model).state_dict() if hasattr(model, "no_sync") else model.state_dict()
    content = {"version": 1, "epoch": epoch, "model": weights, "optimizer": optimizer.state_dict()}
    content = tree_map(lambda leaf: leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf, content)
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getbuffer()


def write(path, data):
    temporary = f"{path}.{os.getpid()}.{time.time_ns()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError:
        os.remove(temporary)
        raise
    finally:
        os.close(descriptor)


def load_checkpoint(path, model, optimizer):
    content, error = None, None
    try:
        content = torch.load(path, map_location=next(model.parameters()).device, weights_only=True)
        weights, state, epoch = content["model"], content["optimizer"], content["epoch"]
        target = model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
        target.load_state_dict(weights, strict=True)
        optimizer.load_state_dict(state)
    except Exception as caught:
        error = caught
    errors = [None] * dist.get_world_size()
    dist.all_gather_object(errors, None if error is None else repr(error))
    with contextlib.suppress(StopIteration):
        rank, text = next((rank, text) for rank, text in enumerate(errors) if text is not None)
        raise ValueError(f"rank {rank} could not load {path}: {text}") from error
    return epoch
