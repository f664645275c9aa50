"""The parameters stay what they are, and their `.data` is swapped: for views of the gathered vector while the unit
computes, for nothing afterwards. Autograd has saved such views, so the vector's storage is emptied and filled in place.
Whole gradients meet in `.grad`; a unit's last one starts its reduce-scatter."""

import torch
import torch.distributed as dist
from torch import nn


class Unit:
    def __init__(self, part, own):
        self.own, self.n, self.ready, self.sums = own, dist.get_world_size(), set(), []
        self.shapes, self.nothing = [p.shape for p in own], own[0].data.new_empty(0)
        self.full = torch.cat([p.data.flatten() for p in own])
        self.full = torch.cat([self.full, self.full.new_zeros(-self.full.numel() % self.n)])
        self.size = self.full.untyped_storage().nbytes()
        self.shard = nn.Parameter(self.full.view(self.n, -1)[dist.get_rank()].clone())
        self.drop()
        for p in own:
            p.register_post_accumulate_grad_hook(self.arrived)
        part.register_forward_pre_hook(lambda *_: self.fetch())
        part.register_forward_hook(self.after)

    def fetch(self):
        storage = self.full.untyped_storage()
        if not storage.nbytes():
            storage.resize_(self.size)
            pieces = [torch.empty_like(self.shard.data) for _ in range(self.n)]
            dist.all_gather(pieces, self.shard.data)
            torch.cat(pieces, out=self.full.data)
        offset = 0
        for p, shape in zip(self.own, self.shapes, strict=True):
            p.data = self.full.data[offset : offset + shape.numel()].view(shape)
            offset += shape.numel()

    def drop(self):
        self.full.untyped_storage().resize_(0)
        for p in self.own:
            p.data = self.nothing

    def after(self, part, inputs, output):
        if output.requires_grad:
            output.register_hook(lambda gradient: self.fetch())
        self.drop()

    def arrived(self, parameter):
        self.ready.add(parameter)
        if len(self.ready) == len(self.own):
            self.reduce()

    def reduce(self):
        if not self.ready:
            return
        gradients = [torch.zeros(s, dtype=self.full.dtype, device=self.full.device) for s in self.shapes]
        flat = torch.cat(
            [(zeros if p.grad is None else p.grad).flatten() for p, zeros in zip(self.own, gradients, strict=True)]
        )
        flat = torch.cat([flat, flat.new_zeros(-flat.numel() % self.n)])
        for p in self.own:
            p.grad = None
        self.ready.clear()
        self.drop()
        mine = torch.empty_like(self.shard.data)
        self.sums.append((dist.reduce_scatter(mine, list(flat.view(self.n, -1)), async_op=True), mine))


class FullyShardedModule(nn.Module):
    def __init__(self, module, unit_class):
        super().__init__()
        self.keys = list(module.state_dict())
        self.named = dict(module.named_parameters(remove_duplicate=False))
        blocks = [part for part in module.modules() if isinstance(part, unit_class)]
        inside = {p for block in blocks for p in block.parameters()}
        owned = [(block, list(block.parameters())) for block in blocks]
        owned += [(module, [p for p in module.parameters() if p not in inside])]
        self.units = [Unit(part, own) for part, own in owned if own]
        self.bare = (module,)  # a tuple hides it from parameters()
        self.shards = nn.ParameterList([unit.shard for unit in self.units])

    def forward(self, *args, **kwargs):
        return self.bare[0](*args, **kwargs)

    def train(self, mode=True):
        self.bare[0].train(mode)
        return super().train(mode)

    def finish_gradient_synchronization(self):
        for unit in self.units:
            unit.reduce()
            for work, mine in unit.sums:
                work.wait()
                mean = mine / unit.n
                unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad + mean
            unit.sums = []

    @torch.no_grad()
    def full_state_dict(self):
        values = {}
        for unit in self.units:
            unit.fetch()
            values |= {p: p.data.clone() for p in unit.own}
            unit.drop()
        state = {key: value.clone() for key, value in self.bare[0].state_dict().items() if key not in self.named}
        state |= {name: values[p].clone() for name, p in self.named.items()}
        return {key: state[key] for key in self.keys}
