"""torch's own ZeroRedundancyOptimizer shards the state, one for each dtype, since it takes one dtype only; beside it
each gradient is reduced to the rank that updates its parameter, all of one owner and dtype in one flat buffer."""

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer


class Zero2Optimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, **defaults):
        self.optimizer_class, self.options, self.engines = optimizer_class, defaults, {}
        super().__init__(params, defaults)

    def add_param_group(self, group):
        super().add_param_group(group)
        group = self.param_groups[-1]
        for dtype in dict.fromkeys(p.dtype for p in group["params"]):
            own = [{**group, "params": [p for p in group["params"] if p.dtype == dtype]}]
            if dtype in self.engines:
                engine = self.engines[dtype][0]
                engine.add_param_group(own[0])
                engine._sync_param_groups(engine.optim.param_groups, engine.param_groups)
            else:
                engine = ZeroRedundancyOptimizer(own, self.optimizer_class, **self.options)
                self.engines[dtype] = engine, []
            self.engines[dtype][1].append(group)
            group |= {name: value for name, value in engine.param_groups[-1].items() if name != "params"}

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for engine, groups in self.engines.values():
            for group, inner in zip(groups, engine.param_groups, strict=True):
                inner |= {name: value for name, value in group.items() if name != "params"}
            self.reduce(engine._param_to_rank)
            engine.step()
            for p in engine._param_to_rank:
                p.grad = None
        return loss

    @torch.no_grad()
    def reduce(self, owners):
        used = torch.tensor([1.0 if p.grad is not None else 0.0 for p in owners]).to(next(iter(owners)).device)
        dist.all_reduce(used)
        by_owner = {}
        for (p, owner), count in zip(owners.items(), used.tolist(), strict=True):
            if count:
                by_owner.setdefault(owner, []).append(p)
        for owner, parameters in by_owner.items():
            parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            flat = torch.cat([part.reshape(-1) for part in parts]).div_(dist.get_world_size())
            dist.reduce(flat, owner)
            for p, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
                p.grad = part.view(p.shape).clone() if owner == dist.get_rank() else None
