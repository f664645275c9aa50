"""Every parameter is cut into N slices. A rank's slice is a view, so that its local optimizer writes into the parameter
itself, and an all-gather for each parameter brings the other slices."""

import torch
import torch.distributed as dist


class ShardedOptimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, **defaults):
        self.slices, self.local = {}, None
        super().__init__(params, defaults)
        self.local = optimizer_class([self.own(group) for group in self.param_groups], **defaults)
        for group, own in zip(self.param_groups, self.local.param_groups, strict=True):
            group |= {name: value for name, value in own.items() if name != "params"}

    def bounds(self, parameter):
        length = -(-parameter.numel() // dist.get_world_size())
        return dist.get_rank() * length, length

    def own(self, group):
        for parameter in group["params"]:
            start, length = self.bounds(parameter)
            self.slices[parameter] = parameter.detach().view(-1)[start : start + length]
        return {**group, "params": [self.slices[parameter] for parameter in group["params"]]}

    def add_param_group(self, param_group):
        options = {} if self.local is None else {k: v for k, v in self.local.defaults.items() if k not in param_group}
        super().add_param_group({**options, **param_group})
        if self.local is not None:
            self.local.add_param_group(self.own(self.param_groups[-1]))

    def step(self, closure=None):
        with torch.enable_grad():
            loss = closure() if closure is not None else None
        with torch.no_grad():
            for group, own in zip(self.param_groups, self.local.param_groups, strict=True):
                own |= {name: value for name, value in group.items() if name != "params"}
            for parameter, piece in self.slices.items():
                start, length = self.bounds(parameter)
                there = parameter.grad is not None
                piece.grad = parameter.grad.reshape(-1)[start : start + length] if there else None
            self.local.step()
            for parameter, piece in self.slices.items():
                piece.grad = None
                self.gather(parameter, piece)
        return loss

    def gather(self, parameter, piece):
        _, length = self.bounds(parameter)
        padded = piece.new_zeros(length)
        padded[: piece.numel()] = piece
        pieces = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, padded)
        parameter.copy_(torch.cat(pieces)[: parameter.numel()].view_as(parameter))

    def state_dict(self):
        for group, own in zip(self.param_groups, self.local.param_groups, strict=True):
            own |= {name: value for name, value in group.items() if name != "params"}
        return self.local.state_dict()

    def load_state_dict(self, state_dict):
        self.local.load_state_dict(state_dict)
        for group, own in zip(self.param_groups, self.local.param_groups, strict=True):
            group |= {name: value for name, value in own.items() if name != "params"}
