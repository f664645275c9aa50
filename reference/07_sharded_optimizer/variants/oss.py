"""As fairscale's OSS does it: parameters are dealt to ranks by size, the largest first, `optim` is an optimizer over
this rank's own, whose options are synchronised both ways, and each rank's values travel in one flat buffer a dtype."""

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class ShardedOptimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, **defaults):
        self.optim, self.sizes, self.rank_of = None, [0] * dist.get_world_size(), {}
        super().__init__(params, defaults)
        for group in self.param_groups:
            self.partition(group)
        self.optim = optimizer_class([self.local(group) for group in self.param_groups], **defaults)
        self.synchronize(self.optim.param_groups, self.param_groups)
        self.defaults = {**self.optim.defaults, **self.defaults}

    def partition(self, group):
        for parameter in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
            rank = self.sizes.index(min(self.sizes))
            self.sizes[rank] += parameter.numel()
            self.rank_of[parameter] = rank

    def local(self, group):
        return {**group, "params": [p for p in group["params"] if self.rank_of[p] == dist.get_rank()]}

    @staticmethod
    def synchronize(source, destination):
        for own, other in zip(source, destination, strict=True):
            other.update({key: value for key, value in own.items() if key != "params"})

    def add_param_group(self, group):
        super().add_param_group(group)
        if self.optim is not None:
            self.partition(self.param_groups[-1])
            self.optim.add_param_group(self.local(self.param_groups[-1]))
            self.synchronize(self.optim.param_groups, self.param_groups)

    def step(self, closure=None):
        self.synchronize(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(closure) if closure is not None else self.optim.step()
        self.broadcast()
        self.synchronize(self.optim.param_groups, self.param_groups)
        return loss

    @torch.no_grad()
    def broadcast(self):
        works = []
        for rank in range(dist.get_world_size()):
            theirs = [parameter for parameter, owner in self.rank_of.items() if owner == rank]
            for dtype in dict.fromkeys(parameter.dtype for parameter in theirs):
                bucket = [parameter for parameter in theirs if parameter.dtype == dtype]
                flat = _flatten_dense_tensors(bucket)
                works.append((dist.broadcast(flat, rank, async_op=True), bucket, flat))
        for work, bucket, flat in works:
            work.wait()
            for parameter, value in zip(bucket, _unflatten_dense_tensors(flat, bucket), strict=True):
                parameter.copy_(value)

    def state_dict(self):
        options = [{k: v for k, v in group.items() if k != "params"} for group in self.param_groups]
        return {"local": self.optim.state_dict(), "options": options}

    def load_state_dict(self, state_dict):
        self.optim.load_state_dict(state_dict["local"])
        self.synchronize(state_dict["options"], self.param_groups)
