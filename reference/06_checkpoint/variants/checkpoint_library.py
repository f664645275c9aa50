"""torch.distributed.checkpoint's own state dict functions, which know wrappers and name the optimizer's entries.

They let an optimizer that has no state yet make a step with gradients of zero. That is no harm when a state is loaded
into it right after; but saving may change nothing, so before the first step the optimizer's own functions are used.
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)


def save_checkpoint(path, model, optimizer, epoch):
    problem = None
    try:
        weights = get_model_state_dict(model)
        state = get_optimizer_state_dict(model, optimizer) if optimizer.state else optimizer.state_dict()
        if dist.get_rank() == 0:
            with open(f"{path}~", "wb") as stream:
                torch.save({"model": weights, "optimizer": state, "epoch": epoch}, stream)
            os.replace(f"{path}~", path)
    except Exception as error:
        problem = error
    problems = [None] * dist.get_world_size()
    dist.all_gather_object(problems, str(problem) if problem is not None else None)
    first = next((text for text in problems if text is not None), None)
    if first is not None:
        raise RuntimeError(f"saving {path}: {first}") from problem


def load_checkpoint(path, model, optimizer):
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        missing = {"model", "optimizer", "epoch"} - set(content)
        if missing:
            raise KeyError(f"no {sorted(missing)}")
    except Exception as error:
        raise RuntimeError(f"{path}: {error}") from error
    set_model_state_dict(model, content["model"])
    if content["optimizer"]["state"]:
        set_optimizer_state_dict(model, optimizer, content["optimizer"])
    else:
        optimizer.load_state_dict(content["optimizer"])
    return content["epoch"]
