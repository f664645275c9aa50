"""Right: puts everything into the environment, lets torch choose, and selects the GPU after joining."""

import os

import torch
import torch.distributed as dist


def setup_ddp(rank: int, world_size: int) -> None:
    if not (world_size >= 1 and 0 <= rank <= world_size - 1):
        raise ValueError("0 <= rank < world_size must hold")
    defaults = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29511"}
    os.environ |= {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), str(world_size)
    own_gpu = torch.cuda.is_available() and world_size <= torch.cuda.device_count()
    dist.init_process_group(None if own_gpu else "gloo")
    if own_gpu:
        torch.cuda.set_device(torch.device("cuda", rank))
        torch.cuda.empty_cache()
        dist.barrier(device_ids=[rank])
    else:
        dist.monitored_barrier()


def cleanup_ddp() -> None:
    if not dist.is_available() or not dist.is_initialized():
        return
    dist.barrier(device_ids=[torch.cuda.current_device()] if dist.get_backend() == "nccl" else None)
    dist.destroy_process_group()
