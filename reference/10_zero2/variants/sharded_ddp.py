"""As fairscale's OSS and ShardedDDP do it: whole parameters are dealt to ranks by size, each gradient is reduced to the
rank that owns its parameter, which steps it and broadcasts it. The owner, too, lets go of the gradient after the step:
with whole parameters its share may be more than 1/N."""

import torch
import torch.distributed as dist


class Zero2Optimizer(torch.optim.Optimizer):
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
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.reduce_gradients()
        self.optim.step()
        self.broadcast()
        return loss

    @torch.no_grad()
    def reduce_gradients(self):
        parameters = list(self.rank_of)
        masks = [None] * dist.get_world_size()
        dist.all_gather_object(masks, [parameter.grad is not None for parameter in parameters])
        works = []
        for number, (parameter, owner) in enumerate(self.rank_of.items()):
            if not any(mask[number] for mask in masks):
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradient = parameter.grad.contiguous() / dist.get_world_size()
            works.append((parameter, owner, gradient, dist.reduce(gradient, owner, async_op=True)))
        for parameter, owner, gradient, work in works:
            work.wait()
            parameter.grad = gradient if owner == dist.get_rank() else None

    @torch.no_grad()
    def broadcast(self):
        for parameter, owner in self.rank_of.items():
            parameter.grad = None
            values = parameter.contiguous()
            dist.broadcast(values, owner)
            parameter.copy_(values)
