"""Uses a segment of shared memory and removes it."""

from multiprocessing import shared_memory

import torch.distributed as dist


def total(value):
    segment = shared_memory.SharedMemory(create=True, size=64)
    segment.buf[:4] = b"note"
    segment.close()
    segment.unlink()
    dist.all_reduce(value)
    return value
