"""One flat reduce-scatter and one all-gather a dtype. All parameters of a dtype are thought of as one long vector, of
which each rank owns an equal stretch: master copies of it, cut where a parameter ends."""

import torch
import torch.distributed as dist


class Zero2Optimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, **defaults):
        self.batches, self.inner = [], None  # parameters that came together and have one dtype
        super().__init__(params, defaults)
        masters = self.share_out([p for group in self.param_groups for p in group["params"]])
        self.inner = optimizer_class([self.mine(group, masters) for group in self.param_groups], **defaults)
        for group, mine in zip(self.param_groups, self.inner.param_groups, strict=True):
            for name in mine:
                group.setdefault(name, mine[name])
        self.defaults = {**self.inner.defaults, **defaults}

    @staticmethod
    def mine(group, masters):
        return {**group, "params": [master for p in group["params"] for master in masters.get(p, [])]}

    def add_param_group(self, group):
        super().add_param_group(group)
        if self.inner is not None:
            added = self.param_groups[-1]
            self.inner.add_param_group(self.mine(added, self.share_out(added["params"])))

    def share_out(self, parameters):
        masters = {}
        for dtype in dict.fromkeys(p.dtype for p in parameters):
            batch = [p for p in parameters if p.dtype == dtype]
            length = -(-sum(p.numel() for p in batch) // dist.get_world_size())
            low, high, offset, pieces = dist.get_rank() * length, (dist.get_rank() + 1) * length, 0, []
            for p in batch:
                start, stop = max(low - offset, 0), min(high - offset, p.numel())
                if start < stop:
                    master = p.detach().reshape(-1)[start:stop].clone()
                    pieces.append((p, offset + start - low, master))
                    masters[p] = [master]
                offset += p.numel()
            self.batches.append((batch, length, pieces))
        return masters

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group, mine in zip(self.param_groups, self.inner.param_groups, strict=True):
            mine.update((name, value) for name, value in group.items() if name != "params")
        for batch, length, pieces in self.batches:
            self.reduce(batch, length, pieces)
        self.inner.step()
        for batch, length, pieces in self.batches:
            self.gather(batch, length, pieces)
        return loss

    def reduce(self, batch, length, pieces):
        n = dist.get_world_size()
        counts = torch.tensor([float(p.grad is not None) for p in batch], device=batch[0].device)
        dist.all_reduce(counts)
        there = dict(zip(batch, counts.tolist(), strict=True))
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in batch])
        flat = torch.cat([flat, flat.new_zeros(length * n - flat.numel())])
        for p in batch:
            p.grad = None
        stretch = flat.new_empty(length)
        dist.reduce_scatter(stretch, list(flat.split(length)))
        stretch /= n
        for p, start, master in pieces:
            master.grad = stretch[start : start + master.numel()] if there[p] else None

    def gather(self, batch, length, pieces):
        stretch = batch[0].new_zeros(length)
        for _, start, master in pieces:
            stretch[start : start + master.numel()] = master
            master.grad = None
        stretches = [torch.empty_like(stretch) for _ in range(dist.get_world_size())]
        dist.all_gather(stretches, stretch)
        values = torch.cat(stretches)[: sum(p.numel() for p in batch)].split([p.numel() for p in batch])
        for p, value in zip(batch, values, strict=True):
            p.copy_(value.view_as(p))
