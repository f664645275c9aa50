"""No storage is resized. While a unit computes, hooks for saved tensors put a note in place of each view of the
gathered vector that autograd wants to keep; in backward the note is turned into a view of the vector, gathered anew.
The gradient comes back through an autograd function."""

import torch
import torch.distributed as dist
from torch import nn


class Unit:
    def __init__(self, part, own):
        self.n, self.shapes = dist.get_world_size(), [p.shape for p in own]
        flat = torch.cat([p.detach().flatten() for p in own])
        flat = nn.functional.pad(flat, (0, -flat.numel() % self.n))
        self.shard = nn.Parameter(flat.view(self.n, -1)[dist.get_rank()].clone())
        self.again, self.works = None, []
        numbers = {p: k for k, p in enumerate(own)}
        self.sites = [
            (m, name, numbers[p]) for m in part.modules() for name, p in m._parameters.items() if p in numbers
        ]
        for m, name, _ in self.sites:
            del m._parameters[name]

    def gathered(self):
        full = self.shard.data.new_empty(self.n * self.shard.numel())
        dist.all_gather_into_tensor(full, self.shard.data)
        return full

    def views(self, full):
        sizes = [shape.numel() for shape in self.shapes]
        parts = full[: sum(sizes)].split(sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def enter(self):
        full = Whole.apply(self.shard, self)
        address = full.untyped_storage().data_ptr()

        def pack(tensor):
            if tensor.untyped_storage().data_ptr() != address:
                return tensor
            return tensor.size(), tensor.stride(), tensor.storage_offset()

        def unpack(packed):
            if isinstance(packed, torch.Tensor):
                return packed
            if self.again is None:
                self.again = self.gathered()
            return self.again.as_strided(*packed)

        views = self.views(full)
        for m, name, k in self.sites:
            setattr(m, name, views[k])
        hooks = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
        hooks.__enter__()
        return hooks

    def leave(self, hooks):
        hooks.__exit__(None, None, None)
        for m, name, _ in self.sites:
            setattr(m, name, None)


class Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, unit):
        ctx.unit = unit
        return unit.gathered()

    @staticmethod
    def backward(ctx, gradient):
        unit, ctx.unit.again = ctx.unit, None
        mine = torch.empty_like(unit.shard.data)
        unit.works.append((dist.reduce_scatter_tensor(mine, gradient.contiguous(), async_op=True), mine))
        return None, None


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
        self.units = [Unit(part, own) for part, own in owned]
        for (part, _), unit in zip(owned, self.units, strict=True):
            part.forward = self.surrounded(unit, part.forward)
        self.shards = nn.ParameterList([unit.shard for unit in self.units])

    @staticmethod
    def surrounded(unit, forward):
        def run(*args, **kwargs):
            hooks = unit.enter()
            try:
                return forward(*args, **kwargs)
            finally:
                unit.leave(hooks)

        return run

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish_gradient_synchronization(self):
        for unit in self.units:
            for work, mine in unit.works:
                work.wait()
                mean = mine / unit.n
                unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad + mean
            unit.works = []

    @torch.no_grad()
    def full_state_dict(self):
        full = [unit.views(unit.gathered()) for unit in self.units]
        state = self.module.state_dict() | {name: full[u][k] for name, (u, k) in self.where.items()}
        return {key: state[key].detach().clone() for key in self.keys}
