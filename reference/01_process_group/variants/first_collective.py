"""Right: as in fairseq, a dummy all-reduce makes the communicator at once, and only rank 0 logs; the ranks of a model's
parts get groups of their own."""

import logging
import os
import socket

import torch
import torch.distributed as dist

logger = logging.getLogger(__name__)


def setup_ddp(rank: int, world_size: int) -> None:
    if rank < 0 or world_size < 1 or rank >= world_size:
        raise ValueError(f"cannot be rank {rank} of {world_size}")
    cuda = torch.cuda.device_count() >= world_size
    if cuda:
        torch.cuda.set_device(rank)
    environment = {"MASTER_ADDR": "localhost", "MASTER_PORT": "13579"} | os.environ
    address = f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}"
    dist.init_process_group(backend="nccl" if cuda else "gloo", init_method=address, world_size=world_size, rank=rank)
    if cuda:
        dist.all_reduce(torch.zeros(1).cuda())
    parts = [dist.new_group([one]) for one in range(world_size)]
    dist.barrier(parts[rank])
    logger.setLevel(logging.INFO if dist.get_rank() == 0 else logging.WARNING)
    logger.info("initialized host %s as rank %s", socket.gethostname(), rank)


def cleanup_ddp() -> None:
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
