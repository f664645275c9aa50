"""As DDP with find_unused_parameters: forward's outputs tell which parameters backward will reach, and the others are
ready before it begins. What no rank has used keeps no gradient; one small all-reduce of flags tells.
"""

from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves


class BucketedDDP(torch.nn.Module):
    def __init__(self, module, bucket_cap_mb=25.0):
        super().__init__()
        self.module = module
        self.synced, self.open = True, False
        for group in (list(module.parameters()), list(module.buffers())):
            by_dtype = {}
            for tensor in group:
                by_dtype.setdefault(tensor.dtype, []).append(tensor.detach())
            for tensors in by_dtype.values():  # many small tensors in one message
                flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
                dist.broadcast(flat, 0)
                for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
                    tensor.copy_(part.view(tensor.shape))
        self.trained = [p for p in module.parameters() if p.requires_grad][::-1]
        self.index = {p: i for i, p in enumerate(self.trained)}
        self.bucket_of, room, number = [], {}, -1
        where = {}
        for p in self.trained:
            size = p.numel() * p.element_size()
            if room.get(p.dtype, 0) < size:
                number += 1
                where[p.dtype], room[p.dtype] = number, bucket_cap_mb * 1e6
            room[p.dtype] -= size
            self.bucket_of.append(where[p.dtype])
        self.count = number + 1
        for p in self.trained:
            p.register_post_accumulate_grad_hook(self.ready)

    def forward(self, *args, **kwargs):
        outputs = self.module(*args, **kwargs)
        if torch.is_grad_enabled() and self.synced and not self.open:
            reached = self.reached_from(outputs)
            self.open, self.launched = True, {}
            self.done = {p for p in self.trained if p not in reached}
            self.used = torch.tensor(
                [p in reached or p.grad is not None for p in self.trained],
                dtype=torch.int32,
                device=self.trained[0].device,
            )
        return outputs

    def reached_from(self, outputs):
        nodes = [t.grad_fn for t in tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.grad_fn is not None]
        seen, found = set(nodes), set()
        while nodes:
            node = nodes.pop()
            if hasattr(node, "variable"):
                found.add(node.variable)
            following = {other for other, _ in node.next_functions if other is not None} - seen
            seen |= following
            nodes += following
        return found

    def ready(self, p):
        if not self.synced:
            return
        if not self.open or p in self.done:
            raise RuntimeError("one backward pass, then finish_gradient_synchronization()")
        self.done.add(p)
        self.launch_complete()

    def launch_complete(self, all_of_them=False):
        for number in range(len(self.launched), self.count):
            bucket = [p for p in self.trained if self.bucket_of[self.index[p]] == number]
            if not all_of_them and any(p not in self.done for p in bucket):
                return
            gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in bucket]
            flat = torch.cat([gradient.flatten() for gradient in gradients]) / dist.get_world_size()
            self.launched[number] = bucket, flat, dist.all_reduce(flat, async_op=True)

    def finish_gradient_synchronization(self):
        self.launch_complete(all_of_them=True)
        dist.all_reduce(self.used)
        for bucket, flat, work in self.launched.values():
            work.wait()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                if self.used[self.index[p]]:
                    p.grad = part.view(p.shape).clone()
        self.open = False

    @contextmanager
    def no_sync(self):
        self.synced = False
        try:
            yield
        finally:
            self.synced = True
