"""Hooks launch, and a thread waits for one bucket after the other and writes its averages back, beside backward."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
import torch.distributed as dist


class BucketedDDP(torch.nn.Module):
    def __init__(self, module, bucket_cap_mb=25.0):
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            whole = tensor.detach().contiguous()
            dist.broadcast(whole, 0)
            tensor.detach().copy_(whole)
        self.buckets = self.pack(bucket_cap_mb * 2**20)
        self.arrived = [set() for _ in self.buckets]
        self.averages = []
        self.background = ThreadPoolExecutor(1)
        self.silent = False
        for number, bucket in enumerate(self.buckets):
            for parameter in bucket:
                parameter.register_post_accumulate_grad_hook(lambda p, number=number: self.arrive(number, p))

    def pack(self, cap):
        buckets, room = [], 0.0
        for parameter in reversed([p for p in self.module.parameters() if p.requires_grad]):
            if not buckets or parameter.nbytes > room or buckets[-1][0].dtype != parameter.dtype:
                buckets.append([])
                room = cap
            buckets[-1].append(parameter)
            room -= parameter.nbytes
        return buckets

    def arrive(self, number, parameter):
        if self.silent:
            return
        if parameter in self.arrived[number]:
            raise RuntimeError("finish_gradient_synchronization was not called after the last backward pass")
        self.arrived[number].add(parameter)
        while (first := len(self.averages)) < len(self.buckets) and len(self.arrived[first]) == len(
            self.buckets[first]
        ):
            self.launch()

    def launch(self):
        bucket = self.buckets[len(self.averages)]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
        work = dist.all_reduce(flat, async_op=True)
        self.averages.append(self.background.submit(self.write_back, bucket, flat, work))

    @staticmethod
    def write_back(bucket, flat, work):
        work.wait()
        flat /= dist.get_world_size()
        for parameter, average in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            parameter.grad = average.reshape(parameter.shape)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish_gradient_synchronization(self):
        while len(self.averages) < len(self.buckets):
            self.launch()
        for average in self.averages:
            average.result()
        self.arrived = [set() for _ in self.buckets]
        self.averages = []

    @contextmanager
    def no_sync(self):
        self.silent = True
        try:
            yield
        finally:
            self.silent = False
