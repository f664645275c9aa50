"""Parameters become views of one flat buffer a dtype and group, and so do the slices, so that a step changes
the parameters themselves and the gather is in place. Each slice of a gradient is reduced to the rank that owns it."""

import torch
import torch.distributed as dist


class Zero2Optimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, **defaults):
        self.buffers, self.inner = [], None
        super().__init__(params, defaults)
        self.inner = optimizer_class([self.flatten(group) for group in self.param_groups], **defaults)
        for group, own in zip(self.param_groups, self.inner.param_groups, strict=True):
            group |= {name: value for name, value in own.items() if name != "params"}
        self.defaults = self.inner.defaults

    def add_param_group(self, group):
        super().add_param_group(group)
        if self.inner is not None:
            self.inner.add_param_group(self.flatten(self.param_groups[-1]))

    def flatten(self, group):
        rank, n, own = dist.get_rank(), dist.get_world_size(), []
        for dtype in dict.fromkeys(p.dtype for p in group["params"]):
            parameters = [p for p in group["params"] if p.dtype == dtype]
            lengths = [-(-p.numel() // n) for p in parameters]
            flat = torch.zeros(n * sum(lengths), dtype=dtype, device=parameters[0].device)
            start, slices = 0, []
            for p, length in zip(parameters, lengths, strict=True):
                whole = flat[start : start + n * length]
                whole[: p.numel()] = p.detach().reshape(-1)
                p.data = whole[: p.numel()].view(p.shape)
                slices.append(whole.split(length))
                start += n * length
            self.buffers.append((parameters, slices))
            own += [pieces[rank] for pieces in slices]
        return {**group, "params": own}

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group, own in zip(self.param_groups, self.inner.param_groups, strict=True):
            own |= {name: value for name, value in group.items() if name != "params"}
        pairs = [pair for parameters, slices in self.buffers for pair in zip(parameters, slices, strict=True)]
        there = torch.tensor([p.grad is not None for p, _ in pairs]).int().to(pairs[0][0].device)
        dist.all_reduce(there, dist.ReduceOp.MAX)
        for (p, pieces), used in zip(pairs, there.tolist(), strict=True):
            if used:
                self.reduce(p, pieces)
        self.inner.step()
        for _, pieces in pairs:
            pieces[dist.get_rank()].grad = None
            for owner, piece in enumerate(pieces):
                dist.broadcast(piece, owner)
        return loss

    @staticmethod
    def reduce(p, pieces):
        n, rank = dist.get_world_size(), dist.get_rank()
        whole = p.new_zeros(n * pieces[0].numel())
        if p.grad is not None:
            whole[: p.numel()] = p.grad.reshape(-1) / n
        p.grad = None
        for owner, part in enumerate(whole.split(pieces[0].numel())):
            dist.reduce(part, owner)
            if owner == rank:
                pieces[owner].grad = part.clone()
