"""Right: a mesh over all ranks, as torchtitan sets up, whose dimensions are groups beside the default one."""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

meshes: list[DeviceMesh] = []


def setup_ddp(rank: int, world_size: int) -> None:
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be in [0, {world_size}), got {rank}")
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "23333")
    kind = "cuda" if torch.cuda.device_count() >= world_size else "cpu"
    if kind == "cuda":
        torch.get_device_module(kind).set_device(torch.device(kind, rank))
    backend = dist.get_default_backend_for_device(kind)
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    world = init_device_mesh(kind, (world_size, 1), mesh_dim_names=("dp", "tp"))
    meshes.append(world)
    assert world["dp"].size() == world_size and world.get_local_rank("dp") == rank


def cleanup_ddp() -> None:
    meshes.clear()
    if dist.is_initialized():
        dist.destroy_process_group()
