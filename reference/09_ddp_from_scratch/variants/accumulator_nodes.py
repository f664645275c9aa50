"""Hooks on the graph's AccumulateGrad nodes, as apex and DDP's own reducer have them.

The node of a parameter is reached through a view of it. It has to be kept alive, or its hook goes with it. The hook
runs when .grad has been written.
"""

from contextlib import contextmanager

import torch
import torch.distributed as dist


class BucketedDDP(torch.nn.Module):
    def __init__(self, module, bucket_cap_mb=25.0):
        super().__init__()
        self.module = module
        self.require_sync = True
        self.world_size = dist.get_world_size()
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        for tensor in state.values():
            sent = tensor.data.contiguous()
            dist.broadcast(sent, src=0)
            tensor.data.copy_(sent)

        by_dtype = {}
        for parameter in module.parameters():
            if parameter.requires_grad:
                by_dtype.setdefault(parameter.dtype, []).insert(0, parameter)
        self.buckets, cap = [], int(bucket_cap_mb * 1024 * 1024)
        for parameters in by_dtype.values():
            bucket, filled = [], 0
            for parameter in parameters:
                if bucket and filled + parameter.nbytes > cap:
                    self.buckets.append(bucket)
                    bucket, filled = [], 0
                bucket.append(parameter)
                filled += parameter.nbytes
            self.buckets.append(bucket)
        order = {id(p): place for place, p in enumerate(reversed(list(module.parameters())))}
        self.buckets.sort(key=lambda bucket: max(order[id(p)] for p in bucket))  # the order in which they get complete

        self.place = {id(p): number for number, bucket in enumerate(self.buckets) for p in bucket}
        self.accumulators = []
        for bucket in self.buckets:
            for parameter in bucket:
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
                node.register_hook(self.make_hook(parameter))
                self.accumulators.append(node)
        self.reset()

    def reset(self):
        self.missing = [{id(p) for p in bucket} for bucket in self.buckets]
        self.in_flight = []

    def make_hook(self, parameter):
        def hook(*_):
            if not self.require_sync:
                return
            missing = self.missing[self.place[id(parameter)]]
            assert id(parameter) in missing, "backward ran twice before finish_gradient_synchronization"
            missing.remove(id(parameter))
            while len(self.in_flight) < len(self.buckets) and not self.missing[len(self.in_flight)]:
                self.reduce_next()

        return hook

    def reduce_next(self):
        bucket = self.buckets[len(self.in_flight)]
        flat = bucket[0].new_zeros(sum(p.numel() for p in bucket))
        for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            if p.grad is not None:
                part.view(p.shape).copy_(p.grad)
        flat.mul_(1.0 / self.world_size)
        self.in_flight.append((flat, dist.all_reduce(flat, op=dist.ReduceOp.SUM, async_op=True)))

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish_gradient_synchronization(self):
        while len(self.in_flight) < len(self.buckets):
            self.reduce_next()
        for bucket, (flat, handle) in zip(self.buckets, self.in_flight, strict=True):
            handle.wait()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                if p.grad is None:
                    p.grad = torch.zeros_like(p)
                p.grad.copy_(part.view_as(p))
        self.reset()

    @contextmanager
    def no_sync(self):
        self.require_sync = False
        try:
            yield
        finally:
            self.require_sync = True
