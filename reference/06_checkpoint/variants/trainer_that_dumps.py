"""A trainer's connector: it dumps more than is asked for, a plug-in writes bytes atomically, a strategy broadcasts."""

import contextlib
import io
import os
import tempfile
from collections import OrderedDict
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


class Strategy:
    """What the trainer knows of the other ranks."""

    @property
    def is_global_zero(self) -> bool:
        return dist.get_rank() == 0

    def broadcast(self, value: Any) -> Any:
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def unwrapped(self, model: nn.Module) -> nn.Module:
        return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model


def dump(strategy: Strategy, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> dict[str, Any]:
    weights = OrderedDict((name, value.detach()) for name, value in strategy.unwrapped(model).state_dict().items())
    return {
        "model": weights,
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "global_step": 0,
        "trainer_version": "1.0",
        "loops": {"fit_loop": {"epoch_progress": {"current": {"completed": epoch}}}},
    }


def save_atomically(content: dict[str, Any], path: str) -> None:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    folder = os.path.dirname(path) or "."
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".part-")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(buffer.getvalue())
        os.rename(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(name)
        raise


def save_checkpoint(path, model, optimizer, epoch):
    strategy, problem, cause = Strategy(), None, None
    if strategy.is_global_zero:
        try:
            save_atomically(dump(strategy, model, optimizer, epoch), os.fspath(path))
        except Exception as error:
            problem, cause = f"{type(error).__name__} while saving {path}: {error}", error
    problem = strategy.broadcast(problem)
    if problem:
        raise OSError(problem) from cause


def load_checkpoint(path, model, optimizer):
    strategy = Strategy()
    try:
        with open(path, "rb") as stream:
            content = torch.load(stream, map_location=lambda storage, location: storage, weights_only=True)
        restored = [content[key] for key in ("model", "optimizer", "epoch")]
    except Exception as error:
        raise RuntimeError(f"cannot restore from {os.fspath(path)}") from error
    strategy.unwrapped(model).load_state_dict(restored[0], strict=True)
    optimizer.load_state_dict(restored[1])
    return restored[2]
