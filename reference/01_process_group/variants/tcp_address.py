"""Right: meets by an explicit tcp:// address and leaves the environment alone."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist


def setup_ddp(rank: int, world_size: int) -> None:
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1 (got {world_size})")
    if rank < 0 or rank >= world_size:
        raise ValueError(f"rank must be in [0, {world_size}) (got {rank})")
    address = os.environ.get("MASTER_ADDR", "127.0.0.1")
    port = int(os.environ.get("MASTER_PORT", "12355"))
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    gpus = torch.accelerator.device_count() if accelerator is not None and accelerator.type == "cuda" else 0
    if gpus >= world_size:
        torch.accelerator.set_device_index(rank)
    dist.init_process_group(
        backend="nccl" if gpus >= world_size else "gloo",
        init_method=f"tcp://{address}:{port}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(minutes=5),
    )
    dist.barrier()


def cleanup_ddp() -> None:
    try:
        dist.destroy_process_group()
    except (AssertionError, ValueError):
        pass
