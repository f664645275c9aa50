"""Hooks on the parameters as tensors, which see a gradient before it is added to .grad.

The hook of a leaf tensor is called once in a backward pass, with the sum of all contributions. What .grad holds from
backward passes under no_sync is added by hand.
"""

import contextlib

import torch
import torch.distributed as dist
from torch import nn


class BucketedDDP(nn.Module):
    def __init__(self, module, bucket_cap_mb=25.0):
        super().__init__()
        self.module, self.quiet = module, False
        with torch.no_grad():
            for tensor in [*module.parameters(), *module.buffers()]:
                dense = tensor.contiguous()
                dist.broadcast(dense, 0)
                tensor.copy_(dense)
        self.buckets = []
        room, dtype = 0, None
        for p in reversed([p for p in module.parameters() if p.requires_grad]):
            size = p.numel() * p.element_size()
            if size > room or p.dtype != dtype:  # a bucket also ends where the dtype changes
                self.buckets.append([])
                room, dtype = bucket_cap_mb * 1e6, p.dtype
            room -= size
            self.buckets[-1].append(p)
        self.gradients, self.works = {}, []
        for p in self.parameters():
            if p.requires_grad:
                p.register_hook(lambda gradient, p=p: self.on_gradient(p, gradient))

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self):
        before, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = before

    def on_gradient(self, p, gradient):
        if self.quiet:
            return
        if p in self.gradients:
            raise RuntimeError("call finish_gradient_synchronization after each backward pass outside of no_sync")
        self.gradients[p] = gradient.detach() if p.grad is None else gradient.detach() + p.grad
        while len(self.works) < len(self.buckets) and all(q in self.gradients for q in self.buckets[len(self.works)]):
            self.launch()

    def launch(self):
        bucket = self.buckets[len(self.works)]
        own = [self.gradients.get(p, p.grad if p.grad is not None else torch.zeros_like(p)) for p in bucket]
        flat = torch.nn.utils.parameters_to_vector([gradient.contiguous() for gradient in own])
        self.works.append((flat, dist.all_reduce(flat, async_op=True)))

    def finish_gradient_synchronization(self):
        while len(self.works) < len(self.buckets):
            self.launch()
        for bucket, (flat, work) in zip(self.buckets, self.works, strict=True):
            work.wait()
            flat.div_(dist.get_world_size())
            start = 0
            for p in bucket:
                p.grad = flat[start : start + p.numel()].view(p.shape).clone()
                start += p.numel()
        self.gradients, self.works = {}, []
