"""A callback at the end of backward sends what the hooks have not sent, so that finishing has only to wait.

The buckets are lists of gradients that one coalesced all-reduce averages in place; nothing is copied together.
"""

from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch.autograd import Variable


class BucketedDDP(torch.nn.Module):
    def __init__(self, module: torch.nn.Module, bucket_cap_mb: float = 25.0):
        super().__init__()
        self.module = module
        self.enabled = True
        self.counts, self.works = None, []
        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            sent = tensor.detach().contiguous()
            dist.broadcast(sent, 0)
            tensor.detach().copy_(sent)
        self.buckets = [[]]
        trained = [p for p in self.module.parameters() if p.requires_grad]
        for p in trained[::-1]:
            bucket = self.buckets[-1]
            full = sum(q.nbytes for q in bucket) + p.nbytes > bucket_cap_mb * 1e6
            if bucket and (full or bucket[0].dtype != p.dtype):
                self.buckets.append(bucket := [])
            bucket.append(p)
        for number, bucket in enumerate(self.buckets):
            for p in bucket:
                p.register_post_accumulate_grad_hook(lambda _, number=number: self.arrived(number))

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self):
        self.enabled = False
        try:
            yield
        finally:
            self.enabled = True

    def arrived(self, number):
        if not self.enabled:
            return
        if self.counts is None:  # the first gradient of this backward pass
            if self.works:
                raise RuntimeError("the gradients of the last backward pass have not been finished")
            self.counts = [len(bucket) for bucket in self.buckets]
            Variable._execution_engine.queue_callback(self.backward_ends)
        self.counts[number] -= 1
        while len(self.works) < len(self.buckets) and self.counts[len(self.works)] == 0:
            self.launch()

    def backward_ends(self):
        while len(self.works) < len(self.buckets):
            self.launch()
        self.counts = None

    def launch(self):
        bucket = self.buckets[len(self.works)]
        for p in bucket:
            p.grad = (torch.zeros_like(p) if p.grad is None else p.grad).contiguous()
            p.grad /= dist.get_world_size()
        with dist._coalescing_manager(async_ops=True) as manager:
            for p in bucket:
                dist.all_reduce(p.grad)
        self.works.append(manager)

    def finish_gradient_synchronization(self):
        for work in self.works:
            work.wait()
        self.works = []
