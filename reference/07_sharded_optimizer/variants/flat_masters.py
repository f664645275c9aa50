"""Flat shards with master weights. A group's parameters are thought of as one long vector, of which each rank owns an
equal slice: a copy of it, cut where a parameter ends. After the step the slices are all-gathered and copied back."""

import torch
import torch.distributed as dist


class ShardedOptimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, **defaults):
        self.inner = None
        self.pieces = []  # for each group a list of (parameter, start, stop, master)
        super().__init__(params, defaults)
        self.inner = optimizer_class([self.shard(group) for group in self.param_groups], **defaults)
        for group, mine in zip(self.param_groups, self.inner.param_groups, strict=True):
            for name in mine:
                group.setdefault(name, mine[name])
        self.defaults = dict(self.inner.defaults)

    def add_param_group(self, group):
        super().add_param_group(group)
        if self.inner is not None:
            self.inner.add_param_group(self.shard(self.param_groups[-1]))

    def shard(self, group):
        """Cut this rank's slice of the group into masters, and remember where each comes from."""
        length = self.length(group)
        low, high = dist.get_rank() * length, (dist.get_rank() + 1) * length
        pieces, offset = [], 0
        for parameter in group["params"]:
            start, stop = max(low - offset, 0), min(high - offset, parameter.numel())
            if start < stop:
                master = parameter.detach().reshape(-1)[start:stop].clone().requires_grad_()
                pieces.append((parameter, start, stop, master))
            offset += parameter.numel()
        self.pieces.append(pieces)
        return {**group, "params": [piece[3] for piece in pieces]}

    @staticmethod
    def length(group):
        """Elements of each rank's slice; the last is padded."""
        return -(-sum(parameter.numel() for parameter in group["params"]) // dist.get_world_size())

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group, mine, pieces in zip(self.param_groups, self.inner.param_groups, self.pieces, strict=True):
            mine.update((name, value) for name, value in group.items() if name != "params")
            for parameter, start, stop, master in pieces:
                master.grad = None if parameter.grad is None else parameter.grad.reshape(-1)[start:stop]
        self.inner.step()
        self.inner.zero_grad()  # the slices of the gradients must not stay alive
        for group, pieces in zip(self.param_groups, self.pieces, strict=True):
            self.gather(group, [piece[3] for piece in pieces])
        return loss

    def gather(self, group, masters):
        some, length = group["params"][0], self.length(group)
        mine = torch.cat([*masters, some.new_zeros(length - sum(master.numel() for master in masters))])
        everything = mine.new_empty(length * dist.get_world_size())
        dist.all_gather_into_tensor(everything, mine)
        offset = 0
        for parameter in group["params"]:
            parameter.copy_(everything[offset : offset + parameter.numel()].view_as(parameter))
            offset += parameter.numel()

    def state_dict(self):
        masters = [[piece[3].detach() for piece in pieces] for pieces in self.pieces]
        options = [{name: value for name, value in group.items() if name != "params"} for group in self.param_groups]
        return {"inner": self.inner.state_dict(), "masters": masters, "options": options}

    @torch.no_grad()
    def load_state_dict(self, state_dict):
        self.inner.load_state_dict(state_dict["inner"])
        for group, options in zip(self.param_groups, state_dict["options"], strict=True):
            group.update(options)
        for pieces, masters in zip(self.pieces, state_dict["masters"], strict=True):
            for piece, master in zip(pieces, masters, strict=True):
                piece[3].copy_(master)
