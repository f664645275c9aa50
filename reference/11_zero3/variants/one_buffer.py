"""All blocks take turns in one buffer, into which each is gathered when it is needed; the rest has another. What
autograd has saved are views of the buffer, which is right again by the time that they are read. Each shard has a
gradient of its own that is written anew in every step."""

import torch
import torch.distributed as dist
from torch import nn


class Buffer:
    """Memory for one unit at a time."""

    def __init__(self, size, like):
        self.flat, self.owner = like.new_empty(size), None
        self.bytes = self.flat.untyped_storage().nbytes()

    def hand_to(self, unit):
        self.owner = unit
        self.flat.untyped_storage().resize_(self.bytes)

    def empty(self):
        self.owner = None
        self.flat.untyped_storage().resize_(0)


class Unit:
    def __init__(self, part, own, buffer):
        self.buffer, self.shapes, self.sums = buffer, [p.shape for p in own], []
        sites = {p: k for k, p in enumerate(own)}
        self.sites = [(m, name, sites[p]) for m in part.modules() for name, p in m._parameters.items() if p in sites]
        for m, name, _ in self.sites:
            del m._parameters[name]
        flat = torch.cat([p.detach().reshape(-1) for p in own])
        flat = nn.functional.pad(flat, (0, -flat.numel() % dist.get_world_size()))
        self.shard = nn.Parameter(flat.view(dist.get_world_size(), -1)[dist.get_rank()].clone())
        self.gradient = torch.zeros_like(self.shard.data)
        self.full = buffer.flat.detach()[: flat.numel()].requires_grad_()
        self.full.register_post_accumulate_grad_hook(self.reduce)
        part.register_forward_pre_hook(self.before)
        part.register_forward_hook(self.after)

    def gather(self, *_):
        if self.buffer.owner is not self:
            self.buffer.hand_to(self)
            dist.all_gather_into_tensor(self.full.data, self.shard.data)

    def views(self):
        sizes = [shape.numel() for shape in self.shapes]
        parts = self.full[: sum(sizes)].split(sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def before(self, part, inputs):
        self.gather()
        views = self.views()
        for m, name, k in self.sites:
            setattr(m, name, views[k])

    def after(self, part, inputs, output):
        if output.requires_grad:
            output.register_hook(self.gather)
        self.buffer.empty()

    def reduce(self, full):
        gradient, full.grad = full.grad, None
        self.buffer.empty()
        mine = torch.empty_like(self.gradient)
        self.sums.append((dist.reduce_scatter_tensor(mine, gradient, async_op=True), mine))

    def finish(self):
        total = torch.zeros_like(self.gradient) if self.shard.grad is None else self.shard.grad.clone()
        for work, mine in self.sums:
            work.wait()
            total += mine / dist.get_world_size()
        if self.sums:
            self.shard.grad = self.gradient.copy_(total)
        self.sums = []


class FullyShardedModule(nn.Module):
    def __init__(self, module, unit_class):
        super().__init__()
        self.keys, self.module = list(module.state_dict()), module
        blocks = [part for part in module.modules() if isinstance(part, unit_class)]
        inside = {p for block in blocks for p in block.parameters()}
        owned = [(block, list(block.parameters())) for block in blocks]
        owned += [(module, [p for p in module.parameters() if p not in inside])]
        owned = [(part, own) for part, own in owned if own]
        where = {p: (u, k) for u, (_, own) in enumerate(owned) for k, p in enumerate(own)}
        self.where = {name: where[p] for name, p in module.named_parameters(remove_duplicate=False)}
        shared, self.units = None, []
        for part, own in owned:
            size = sum(p.numel() for p in own) + dist.get_world_size()
            if part is module:
                self.units.append(Unit(part, own, Buffer(size, own[0].detach())))
            else:
                shared = shared or Buffer(size, own[0].detach())
                self.units.append(Unit(part, own, shared))
        for unit in self.units:
            unit.buffer.empty()
        self.shards = nn.ParameterList([unit.shard for unit in self.units])

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish_gradient_synchronization(self):
        for unit in self.units:
            unit.finish()

    @torch.no_grad()
    def full_state_dict(self):
        full = []
        for unit in self.units:
            unit.gather()
            full.append([view.clone() for view in unit.views()])
            unit.buffer.empty()
        state = self.module.state_dict() | {name: full[u][k] for name, (u, k) in self.where.items()}
        return {key: state[key].detach().clone() for key in self.keys}
