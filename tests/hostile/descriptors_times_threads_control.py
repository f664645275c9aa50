"""Has some hundreds of descriptors open, in a few threads."""

import os
import threading

import torch.distributed as dist


def total(value):
    null = os.open("/dev/null", os.O_RDONLY)
    for _ in range(300):
        os.dup(null)
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    dist.all_reduce(value)
    over.set()
    for thread in threads:
        thread.join()
    return value
