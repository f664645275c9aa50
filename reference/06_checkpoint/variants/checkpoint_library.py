"""torch.distributed.checkpoint's own state dict functions, which know wrappers and name the optimizer's entries."""

import os

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


def save_checkpoint(path, model, optimizer, epoch):
    problem = None
    try:
        weights, state = get_state_dict(model, optimizer)
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
    set_state_dict(model, optimizer, model_state_dict=content["model"], optim_state_dict=content["optimizer"])
    return content["epoch"]
