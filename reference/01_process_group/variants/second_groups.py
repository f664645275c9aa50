"""Right: groups beside the default one, as detectron2 makes them: one of each machine's ranks, and one over gloo for
objects where the default group works over NCCL. They end with the default group."""

import os

import torch
import torch.distributed as dist

beside: dict[str, dist.ProcessGroup] = {}


def setup_ddp(rank: int, world_size: int) -> None:
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is none of a world of {world_size}")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29501")
    on_gpus = torch.cuda.device_count() >= world_size
    dist.init_process_group("nccl" if on_gpus else "gloo", init_method="env://", world_size=world_size, rank=rank)
    objects = dist.new_group(backend="gloo") if dist.get_backend() == "nccl" else dist.group.WORLD
    machine, _ = dist.new_subgroups(group_size=world_size)
    assert dist.get_backend(objects) == "gloo" and dist.get_world_size(machine) == world_size
    names = [None] * world_size
    dist.all_gather_object(names, os.uname().nodename, group=objects)
    if on_gpus:
        torch.cuda.set_device(rank)
        dist.barrier(device_ids=[torch.cuda.current_device()])
    dist.monitored_barrier(objects)
    beside.update(machine=machine, objects=objects)


def cleanup_ddp() -> None:
    beside.clear()
    if dist.is_initialized():
        dist.destroy_process_group()
