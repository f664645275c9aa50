"""The base optimizer knows all parameters, but sees gradients of this rank's own only, so it makes state for no others.
Sizes are dealt out like cards, back and forth; new values travel as Python objects."""

import torch
import torch.distributed as dist


class ShardedOptimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, **defaults):
        self.base = None
        self.totals = [0.0] * dist.get_world_size()
        self.home = {}
        groups = list(params)
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        groups = [{**group, "params": members(group)} for group in groups]
        self.base = optimizer_class(groups, **defaults)
        super().__init__(self.base.param_groups, self.base.defaults)
        self.param_groups = self.base.param_groups  # one list for both: nothing to copy
        self.deal(parameter for group in self.param_groups for parameter in group["params"])

    def deal(self, parameters):
        for parameter in sorted(parameters, key=lambda parameter: -parameter.numel()):
            owner = self.totals.index(min(self.totals))
            self.home[parameter] = owner
            self.totals[owner] += parameter.numel()
        for parameter in [p for p in self.base.state if self.home.get(p) != dist.get_rank()]:
            del self.base.state[parameter]  # Adagrad makes state for all in its constructor

    def add_param_group(self, param_group):
        if not self.home:
            return super().add_param_group(param_group)
        group = {**param_group, "params": members(param_group)}
        self.base.add_param_group(group)
        self.deal(group["params"])

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        foreign = {p: p.grad for p, owner in self.home.items() if owner != dist.get_rank()}
        for parameter in foreign:
            parameter.grad = None
        self.base.step()
        for parameter, gradient in foreign.items():
            parameter.grad = gradient
        self.exchange()
        return loss

    def exchange(self):
        parameters = list(self.home)
        mine = {n: p.detach().clone() for n, p in enumerate(parameters) if self.home[p] == dist.get_rank()}
        everyones = [None] * dist.get_world_size()
        dist.all_gather_object(everyones, mine)
        for theirs in everyones:
            for number, values in theirs.items():
                parameters[number].data.copy_(values)

    def zero_grad(self, set_to_none=True):
        for parameter in self.home:
            if parameter.grad is not None:
                parameter.grad.zero_()

    def state_dict(self):
        return self.base.state_dict()

    def load_state_dict(self, state_dict):
        self.base.load_state_dict(state_dict)
        self.param_groups = self.base.param_groups


def members(group):
    return [group["params"]] if isinstance(group["params"], torch.Tensor) else list(group["params"])
