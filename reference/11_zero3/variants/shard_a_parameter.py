"""As FSDP2 does it: each parameter has a shard of its own, under its own name, and a unit's shards travel in one
all-gather. Between uses the whole parameters are tensors without storage."""

import torch
import torch.distributed as dist
from torch import nn


class Part:
    """One parameter: its shard, and itself as a leaf that is whole at times."""

    def __init__(self, parameter):
        self.n, self.shape = dist.get_world_size(), parameter.shape
        flat = parameter.detach().reshape(-1)
        flat = nn.functional.pad(flat, (0, -flat.numel() % self.n))
        self.shard = nn.Parameter(flat.view(self.n, -1)[dist.get_rank()].clone())
        self.leaf = parameter.detach().clone().contiguous().requires_grad_()
        self.bytes = self.leaf.untyped_storage().nbytes()


class Unit:
    def __init__(self, part, own):
        self.n, self.parts, self.sums, self.whole, self.seen = (
            dist.get_world_size(),
            [Part(p) for p in own],
            [],
            True,
            0,
        )
        numbers = {p: k for k, p in enumerate(own)}
        for m in part.modules():
            for name, p in list(m._parameters.items()):
                if p in numbers:
                    del m._parameters[name]
                    setattr(m, name, self.parts[numbers[p]].leaf)
        for one in self.parts:
            one.leaf.register_post_accumulate_grad_hook(self.arrived)
        part.register_forward_pre_hook(lambda *_: self.unshard())
        part.register_forward_hook(self.after)
        self.reshard()

    def unshard(self, *_):
        if self.whole:
            return
        mine = torch.cat([one.shard.data for one in self.parts])
        everyones = mine.new_empty(self.n, mine.numel())
        dist.all_gather_into_tensor(everyones.view(-1), mine)
        pieces = everyones.split([one.shard.numel() for one in self.parts], dim=1)
        for one, piece in zip(self.parts, pieces, strict=True):
            one.leaf.untyped_storage().resize_(one.bytes)
            one.leaf.data.copy_(piece.reshape(-1)[: one.leaf.numel()].view(one.shape))
        self.whole = True

    def reshard(self):
        for one in self.parts:
            one.leaf.untyped_storage().resize_(0)
        self.whole = False

    def after(self, part, inputs, output):
        if output.requires_grad:
            output.register_hook(self.unshard)
        self.reshard()

    def arrived(self, leaf):
        self.seen += 1
        if self.seen == len(self.parts):
            self.reduce()

    def reduce(self):
        if not self.seen:
            return
        rows = []
        for one in self.parts:
            gradient, one.leaf.grad = one.leaf.grad, None
            flat = one.shard.data.new_zeros(self.n * one.shard.numel())
            if gradient is not None:
                flat[: gradient.numel()] = gradient.reshape(-1) / self.n
            rows.append(flat.view(self.n, -1))
        self.seen = 0
        self.reshard()
        every = torch.cat(rows, dim=1)
        mine = every.new_empty(every.shape[1])
        self.sums.append((dist.reduce_scatter_tensor(mine, every.view(-1), async_op=True), mine))

    def finish(self):
        self.reduce()
        for work, mine in self.sums:
            work.wait()
            for one, piece in zip(self.parts, mine.split([one.shard.numel() for one in self.parts]), strict=True):
                one.shard.grad = piece.clone() if one.shard.grad is None else one.shard.grad + piece
        self.sums = []


class FullyShardedModule(nn.Module):
    def __init__(self, module, unit_class):
        super().__init__()
        self.keys, self.module = list(module.state_dict()), module
        blocks = [part for part in module.modules() if isinstance(part, unit_class)]
        inside = {p for block in blocks for p in block.parameters()}
        owned = [(block, list(block.parameters())) for block in blocks]
        owned += [(module, [p for p in module.parameters() if p not in inside])]
        names = {p: name for name, p in module.named_parameters()}
        places = dict(module.named_parameters(remove_duplicate=False))
        self.units, shards, where = [], {}, {}
        for part, own in owned:
            if own:
                self.units.append(Unit(part, own))
                where |= {p: (len(self.units) - 1, k) for k, p in enumerate(own)}
                shards |= {names[p]: one.shard for p, one in zip(own, self.units[-1].parts, strict=True)}
        self.where = {name: where[p] for name, p in places.items()}
        for name, shard in shards.items():
            self.register_parameter(name.replace(".", "/"), shard)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish_gradient_synchronization(self):
        for unit in self.units:
            unit.finish()

    @torch.no_grad()
    def full_state_dict(self):
        full = []
        for unit in self.units:
            unit.unshard()
            full.append([one.leaf.detach().clone() for one in unit.parts])
            unit.reshard()
        state = self.module.state_dict() | {name: full[u][k] for name, (u, k) in self.where.items()}
        return {key: state[key].detach().clone() for key in self.keys}
