"""Gradients are views of flat buckets, which are reduced in place and never copied.

Whoever sets a gradient to None takes the view away; the hook puts it back. A gradient that is gone and did not come
back counts as zero, so its place in the bucket is cleared.
"""

from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn


class FlatBucket:
    def __init__(self, parameters):
        self.parameters = parameters
        self.flat = torch.zeros(
            sum(p.numel() for p in parameters), dtype=parameters[0].dtype, device=parameters[0].device
        )
        parts = self.flat.split([p.numel() for p in parameters])
        self.views = {p: part.view(p.shape) for p, part in zip(parameters, parts, strict=True)}
        self.seen, self.work = set(), None

    def adopt(self, p):
        """Make p.grad the view of its place again."""
        view = self.views[p]
        if p.grad is None:
            view.zero_()
        elif p.grad.data_ptr() != view.data_ptr() or p.grad.stride() != view.stride():
            view.copy_(p.grad)
        p.grad = view

    def launch(self):
        for p in self.parameters:
            self.adopt(p)
        self.flat.div_(dist.get_world_size())
        self.work = dist.all_reduce(self.flat, async_op=True)


class BucketedDDP(nn.Module):
    def __init__(self, module, bucket_cap_mb=25.0):
        super().__init__()
        self.module = module
        self._sync = True
        for t in list(module.parameters()) + list(module.buffers()):
            dense = t.data.contiguous()
            dist.broadcast(dense, 0)
            t.data.copy_(dense)
        groups = []
        for p in reversed([p for p in module.parameters() if p.requires_grad]):
            fits = [
                g
                for g in groups[-3:]
                if g[0].dtype == p.dtype and sum(q.nbytes for q in g) + p.nbytes <= bucket_cap_mb * 1e6
            ]
            if fits:
                fits[-1].append(p)
            else:
                groups.append([p])
        self._buckets = [FlatBucket(group) for group in groups]
        for bucket in self._buckets:
            for p in bucket.parameters:
                p.register_post_accumulate_grad_hook(lambda p, bucket=bucket: self._hook(bucket, p))

    def _hook(self, bucket, p):
        bucket.adopt(p)
        if not self._sync:
            return
        if bucket.work is not None or p in bucket.seen:
            raise RuntimeError("gradients are still being averaged; call finish_gradient_synchronization() first")
        bucket.seen.add(p)
        for waiting in self._buckets:
            if waiting.work is None:
                if len(waiting.seen) < len(waiting.parameters):
                    break
                waiting.launch()

    def finish_gradient_synchronization(self):
        for bucket in self._buckets:
            if bucket.work is None:
                bucket.launch()
        for bucket in self._buckets:
            bucket.work.wait()
            bucket.seen, bucket.work = set(), None

    @contextmanager
    def no_sync(self):
        self._sync = False
        try:
            yield
        finally:
            self._sync = True

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)
