"""Each bucket is reduce-scattered in backward, padded so that it divides, and gathered again when all is waited for:
the two halves of a ring all-reduce, of which the first one overlaps backward.
"""

from contextlib import contextmanager

import torch
import torch.distributed as dist


class BucketedDDP(torch.nn.Module):
    def __init__(self, module, bucket_cap_mb=25.0):
        super().__init__()
        self.module, self.syncing = module, True
        self.n, self.rank = dist.get_world_size(), dist.get_rank()
        objects = [[t.detach().clone() for t in (*module.parameters(), *module.buffers())]]
        dist.broadcast_object_list(objects, src=0)
        with torch.no_grad():
            for mine, theirs in zip((*module.parameters(), *module.buffers()), objects[0], strict=True):
                mine.copy_(theirs)
        self.buckets, sizes = [], []
        for p in [p for p in module.parameters() if p.requires_grad][::-1]:
            same = self.buckets and self.buckets[-1][0].dtype == p.dtype
            if not same or sizes[-1] + p.nbytes > bucket_cap_mb * 2**20:
                self.buckets.append([])
                sizes.append(0)
            self.buckets[-1].append(p)
            sizes[-1] += p.nbytes
        self.waiting, self.sent = None, []
        for number, bucket in enumerate(self.buckets):
            for p in bucket:
                p.register_post_accumulate_grad_hook(lambda p, number=number: self.hook(number, p))

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def hook(self, number, p):
        if not self.syncing:
            return
        if self.waiting is None:
            self.waiting = [set(bucket) for bucket in self.buckets]
        if p not in self.waiting[number]:
            raise RuntimeError(f"a parameter of shape {tuple(p.shape)} got its gradient twice before finishing")
        self.waiting[number].discard(p)
        while len(self.sent) < len(self.buckets) and not self.waiting[len(self.sent)]:
            self.scatter()

    def scatter(self):
        bucket = self.buckets[len(self.sent)]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in bucket])
        flat = torch.nn.functional.pad(flat, (0, -len(flat) % self.n)) / self.n
        mine = flat.new_empty(len(flat) // self.n)
        self.sent.append((flat, mine, dist.reduce_scatter_tensor(mine, flat, async_op=True)))

    def finish_gradient_synchronization(self):
        while len(self.sent) < len(self.buckets):
            self.scatter()
        gathers = []
        for flat, mine, work in self.sent:
            work.wait()
            gathers.append(dist.all_gather_into_tensor(flat, mine, async_op=True))
        for bucket, (flat, _, _), work in zip(self.buckets, self.sent, gathers, strict=True):
            work.wait()
            start = 0
            for p in bucket:
                part = flat[start : start + p.numel()].view(p.shape)
                p.grad = part.clone() if p.grad is None else p.grad.copy_(part)
                start += p.numel()
        self.waiting, self.sent = None, []

    @contextmanager
    def no_sync(self):
        self.syncing = False
        try:
            yield
        finally:
            self.syncing = True
