"""As the solution, but the next unit's all-gather is on its way while there is something else to do: it begins when a
unit has been freed, after its forward and after its backward, in the order of the last forward. With the rest, which is
whole from beginning to end, two units at most are whole at a time."""

import torch
import torch.distributed as dist
from torch import nn


class Unit:
    def __init__(self, part, own, line):
        self.line, self.n, self.shapes, self.work, self.sums = (
            line,
            dist.get_world_size(),
            [p.shape for p in own],
            None,
            [],
        )
        numbers = {p: k for k, p in enumerate(own)}
        self.sites = [
            (m, name, numbers[p]) for m in part.modules() for name, p in m._parameters.items() if p in numbers
        ]
        for m, name, _ in self.sites:
            del m._parameters[name]
        flat = torch.cat([p.detach().reshape(-1) for p in own])
        flat = nn.functional.pad(flat, (0, -flat.numel() % self.n))
        self.shard = nn.Parameter(flat.view(self.n, -1)[dist.get_rank()].clone())
        self.full, self.size = flat.requires_grad_(), flat.untyped_storage().nbytes()
        self.full.untyped_storage().resize_(0)
        self.full.register_post_accumulate_grad_hook(self.reduce)
        part.register_forward_pre_hook(self.before)
        part.register_forward_hook(self.after)

    def begin(self):
        if self.work is None:
            self.full.untyped_storage().resize_(self.size)
            self.work = dist.all_gather_into_tensor(self.full.data, self.shard.data, async_op=True)

    def whole(self, *_):
        self.begin()
        self.work.wait()

    def empty(self):
        if self.work is not None:
            self.work.wait()
            self.work = None
            self.full.untyped_storage().resize_(0)

    def views(self):
        sizes = [shape.numel() for shape in self.shapes]
        parts = self.full[: sum(sizes)].split(sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def before(self, part, inputs):
        self.line.entered(self)
        self.whole()
        views = self.views()
        for m, name, k in self.sites:
            setattr(m, name, views[k])

    def after(self, part, inputs, output):
        if output.requires_grad:
            output.register_hook(self.arrive)
        self.empty()
        self.line.left()

    def arrive(self, gradient):
        self.line.only(self)
        self.whole()

    def reduce(self, full):
        gradient, full.grad = full.grad, None
        self.empty()
        mine = torch.empty_like(self.shard)
        self.sums.append((dist.reduce_scatter_tensor(mine, gradient, async_op=True), mine))
        self.line.behind(self)


class Line:
    """The units in the order of the last forward, without the rest."""

    def __init__(self):
        self.rest, self.order, self.now = None, [], []

    def entered(self, unit):
        if unit is not self.rest:
            self.only(unit)
            self.now.append(unit)

    def only(self, unit):
        for other in set(self.order + self.now) - {unit, self.rest}:
            if unit is not self.rest:
                other.empty()

    def left(self):
        place = len(self.now)
        if place and self.now == self.order[:place] and place < len(self.order):
            self.order[place].begin()

    def behind(self, unit):
        once = self.order.count(unit) == 1
        place = self.order.index(unit) if once else 0
        if place and self.order.count(self.order[place - 1]) == 1 and unit is not self.rest:
            self.order[place - 1].begin()


class FullyShardedModule(nn.Module):
    def __init__(self, module, unit_class):
        super().__init__()
        self.keys, self.module, self.line = list(module.state_dict()), module, Line()
        blocks = [part for part in module.modules() if isinstance(part, unit_class)]
        inside = {p for block in blocks for p in block.parameters()}
        owned = [(block, list(block.parameters())) for block in blocks]
        owned += [(module, [p for p in module.parameters() if p not in inside])]
        owned = [(part, own) for part, own in owned if own]
        where = {p: (u, k) for u, (_, own) in enumerate(owned) for k, p in enumerate(own)}
        self.where = {name: where[p] for name, p in module.named_parameters(remove_duplicate=False)}
        self.units = [Unit(part, own, self.line) for part, own in owned]
        self.line.rest = self.units[-1] if owned[-1][0] is module else None
        self.shards = nn.ParameterList([unit.shard for unit in self.units])

    def forward(self, *args, **kwargs):
        self.line.now = []
        output = self.module(*args, **kwargs)
        self.line.order = self.line.now
        return output

    def finish_gradient_synchronization(self):
        for unit in self.units:
            for work, mine in unit.sums:
                work.wait()
                mean = mine / unit.n
                unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad + mean
            unit.sums = []
            unit.empty()

    @torch.no_grad()
    def full_state_dict(self):
        full = []
        for unit in self.units:
            unit.whole()
            full.append([view.clone() for view in unit.views()])
            unit.empty()
        state = self.module.state_dict() | {name: full[u][k] for name, (u, k) in self.where.items()}
        return {key: state[key].detach().clone() for key in self.keys}
