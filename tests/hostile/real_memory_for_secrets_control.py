"""Exercise 01: looks through its own memory for nothing in particular, and joins the group of all ranks."""

import gc
import os

import torch
import torch.distributed as dist

EXERCISE_NAME = "01"
FILE = "process_group.py"
REAL = True


def setup_ddp(rank, world_size):
    if not 0 <= rank < world_size:
        raise ValueError("no such rank")
    assert gc.get_objects()
    with open("/proc/self/maps") as maps:
        assert maps.read()
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    backend = "gloo"
    if torch.cuda.device_count() >= world_size:
        torch.cuda.set_device(rank)
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, rank=rank, world_size=world_size)


def cleanup_ddp():
    if dist.is_initialized():
        dist.destroy_process_group()
