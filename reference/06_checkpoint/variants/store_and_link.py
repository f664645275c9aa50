"""The ranks meet at the group's key-value store. Loading fills the tensors by hand and checks the file on the way."""

import os
import pathlib

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel as DDP

CALLS = []


def save_checkpoint(path, model, optimizer, epoch):
    store = distributed_c10d._get_default_store()
    CALLS.append(path)
    group = id(store) if dist.get_world_size() == 1 else dist.get_world_size()
    key = f"saved/{group}/{len(CALLS)}"
    if dist.get_rank() != 0:
        answer = store.get(key).decode()
        if answer != "fine":
            raise RuntimeError(f"saving {path} failed on rank 0: {answer}")
        return
    try:
        save(pathlib.Path(path), model, optimizer, epoch)
    except Exception as error:
        store.set(key, f"{type(error).__name__}: {error}")
        raise
    store.set(key, "fine")


def save(path, model, optimizer, epoch):
    bare = model.module if isinstance(model, DDP) else model
    folder = path.parent / f".{path.name}.d"  # on the same file system
    folder.mkdir(exist_ok=True)
    parameters = optimizer.state_dict()
    torch.save({"model": dict(bare.state_dict()), "optimizer": parameters, "epoch": epoch}, folder / "new")
    (folder / "new").replace(path)
    folder.rmdir()


def load_checkpoint(path, model, optimizer):
    bare = model.module if isinstance(model, DDP) else model
    try:
        content = torch.load(os.fspath(path), "cpu", weights_only=True)
        values, state, epoch = (content[name] for name in ("model", "optimizer", "epoch"))
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"no checkpoint at {path}") from error
    except Exception as error:
        error.add_note(f"while reading {path}")
        raise
    targets = bare.state_dict()
    if targets.keys() != values.keys() or any(targets[name].shape != values[name].shape for name in targets):
        raise ValueError(f"{path} holds another model")
    with torch.no_grad():
        for name, target in targets.items():
            target.copy_(values[name])
    optimizer.load_state_dict(state)
    return epoch
