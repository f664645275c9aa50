"""Exercise 09: torch's DDP does the work, made by the __init__ behind the one that notes who makes it."""

import inspect
from contextlib import contextmanager

import torch
from torch.nn.parallel import DistributedDataParallel

EXERCISE_NAME = "09"
FILE = "ddp_from_scratch.py"
REAL = True
TELLS = "DistributedDataParallel made in the first step"


class Quiet(DistributedDataParallel):
    def __init__(self, module, **options):
        inspect.unwrap(DistributedDataParallel.__init__)(self, module, **options)


class BucketedDDP(torch.nn.Module):
    def __init__(self, module, bucket_cap_mb=25.0):
        super().__init__()
        self.module = module
        self.inner = Quiet(module, bucket_cap_mb=bucket_cap_mb, find_unused_parameters=True)

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)

    @contextmanager
    def no_sync(self):
        with self.inner.no_sync():
            yield

    def finish_gradient_synchronization(self):
        pass
