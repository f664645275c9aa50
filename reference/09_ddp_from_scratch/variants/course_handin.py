"""In the manner of a hand-in for a course on language models: pending counts, flatten and unflatten, and handles."""

from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class BucketedDDP(torch.nn.Module):
    def __init__(self, module: torch.nn.Module, bucket_cap_mb: float = 25.0):
        super().__init__()
        self.module = module
        self.world_size = dist.get_world_size()
        self.bucket_cap_bytes = bucket_cap_mb * 1024**2
        self.handles = []
        self.sync_enabled = True

        for param in self.module.parameters():
            self._broadcast(param.data)
        for buffer in self.module.buffers():
            self._broadcast(buffer.data)

        self.buckets = []
        self._create_buckets()
        for bucket_idx, bucket in enumerate(self.buckets):
            for param in bucket:
                param.register_post_accumulate_grad_hook(self._make_hook(bucket_idx))
        self.pending = [len(bucket) for bucket in self.buckets]
        self.next_bucket = 0

    def _create_buckets(self):
        current, current_bytes = [], 0
        for param in reversed(list(self.module.parameters())):
            if not param.requires_grad:
                continue
            param_bytes = param.numel() * param.element_size()
            overflow = current_bytes + param_bytes > self.bucket_cap_bytes
            if current and (overflow or param.dtype != current[0].dtype):
                self.buckets.append(current)
                current, current_bytes = [], 0
            current.append(param)
            current_bytes += param_bytes
        if current:
            self.buckets.append(current)

    def _make_hook(self, bucket_idx):
        def hook(param):
            if not self.sync_enabled:
                return
            self.pending[bucket_idx] -= 1
            if self.pending[bucket_idx] < 0:
                raise RuntimeError("backward was called again before finish_gradient_synchronization")
            while self.next_bucket < len(self.buckets) and self.pending[self.next_bucket] == 0:
                self._all_reduce_bucket()

        return hook

    def _all_reduce_bucket(self):
        bucket = self.buckets[self.next_bucket]
        grads = []
        for param in bucket:
            if param.grad is None:
                param.grad = torch.zeros_like(param)
            grads.append(param.grad)
        flat = _flatten_dense_tensors([grad.contiguous() for grad in grads])
        self.handles.append((dist.all_reduce(flat, async_op=True), flat, grads))
        self.next_bucket += 1

    def _broadcast(self, tensor):
        sent = tensor.contiguous()
        dist.broadcast(sent, src=0)
        tensor.copy_(sent)

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    def finish_gradient_synchronization(self):
        while self.next_bucket < len(self.buckets):
            self._all_reduce_bucket()
        for handle, flat, grads in self.handles:
            handle.wait()
            flat.div_(self.world_size)
            for grad, averaged in zip(grads, _unflatten_dense_tensors(flat, grads), strict=True):
                grad.copy_(averaged)
        self.handles.clear()
        self.pending = [len(bucket) for bucket in self.buckets]
        self.next_bucket = 0

    @contextmanager
    def no_sync(self):
        self.sync_enabled = False
        try:
            yield
        finally:
            self.sync_enabled = True
