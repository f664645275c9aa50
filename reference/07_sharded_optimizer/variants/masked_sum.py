"""A base optimizer for each group that this rank has a part of, and an all-reduce of all parameters in which every rank
puts zeros for what it does not own."""

import torch
import torch.distributed as dist


class ShardedOptimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, **defaults):
        self.optimizer_class, self.own_defaults = optimizer_class, defaults
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.engines, self.mine, self.load = [], set(), dict.fromkeys(range(self.world_size), 0)
        everything = optimizer_class([torch.zeros(1)], **defaults).defaults  # what the class adds of its own
        super().__init__(params, {**everything, **defaults})

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in reversed(group["params"]):
            owner = min(self.load, key=lambda rank: (self.load[rank], -rank))
            self.load[owner] += parameter.numel()
            if owner == self.rank:
                self.mine.add(parameter)
        own = [parameter for parameter in group["params"] if parameter in self.mine]
        self.engines.append(self.optimizer_class([{**group, "params": own}], **self.own_defaults) if own else None)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group, engine in zip(self.param_groups, self.engines, strict=True):
            if engine is not None:
                engine.param_groups[0] |= {name: value for name, value in group.items() if name != "params"}
                engine.step()
        self.exchange([parameter for group in self.param_groups for parameter in group["params"]])
        return loss

    def exchange(self, parameters):
        flat = torch.cat([p.flatten() if p in self.mine else torch.zeros_like(p).flatten() for p in parameters])
        dist.all_reduce(flat)
        for parameter, values in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            parameter.copy_(values.view_as(parameter))

    def state_dict(self):
        groups = [{name: value for name, value in group.items() if name != "params"} for group in self.param_groups]
        return {"groups": groups, "engines": [engine and engine.state_dict() for engine in self.engines]}

    def load_state_dict(self, state_dict):
        for group, saved in zip(self.param_groups, state_dict["groups"], strict=True):
            group.update(saved)
        for engine, saved in zip(self.engines, state_dict["engines"], strict=True):
            if engine is not None:
                engine.load_state_dict(saved)
