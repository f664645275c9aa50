"""Every rank sends each other one its slices, and each adds up what it gets: an all-to-all and a local sum. Slices are
views of the parameters where these are contiguous, so that the local optimizer writes into the parameter itself."""

import torch
import torch.distributed as dist


class Zero2Optimizer(torch.optim.Optimizer):
    def __init__(self, params, optimizer_class, **defaults):
        everything = optimizer_class([torch.zeros(1)], **defaults).defaults  # what the class adds of its own
        self.optimizer_class, self.options, self.engines = optimizer_class, defaults, []
        super().__init__(params, {**everything, **defaults})

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        slices = [self.slice_of(parameter) for parameter in group["params"]]
        self.engines.append(self.optimizer_class([{**group, "params": slices}], **self.options))

    @staticmethod
    def bounds(parameter):
        length = -(-parameter.numel() // dist.get_world_size())
        return dist.get_rank() * length, length

    def slice_of(self, parameter):
        start, length = self.bounds(parameter)
        return parameter.detach().reshape(-1)[start : start + length].clone()

    def pairs(self):
        for group, engine in zip(self.param_groups, self.engines, strict=True):
            yield from zip(group["params"], engine.param_groups[0]["params"], strict=True)

    def step(self, closure=None):
        loss = closure() if closure is not None else None
        with torch.no_grad():
            for parameter, piece in self.pairs():
                piece.grad = self.averaged(parameter, piece)
                parameter.grad = None
            for group, engine in zip(self.param_groups, self.engines, strict=True):
                engine.param_groups[0] |= {name: value for name, value in group.items() if name != "params"}
                engine.step()
                engine.zero_grad()
            for parameter, piece in self.pairs():
                self.gather(parameter, piece)
        return loss

    def averaged(self, parameter, piece):
        n, (_, length) = dist.get_world_size(), self.bounds(parameter)
        there = torch.tensor([int(parameter.grad is not None)], device=parameter.device)
        dist.all_reduce(there)
        if not there:
            return None
        sent = parameter.new_zeros(n * length)
        if parameter.grad is not None:
            sent[: parameter.numel()] = parameter.grad.flatten()
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        return received.view(n, length).mean(0)[: piece.numel()]

    def gather(self, parameter, piece):
        padded = torch.zeros(self.bounds(parameter)[1], dtype=piece.dtype, device=piece.device)
        padded[: piece.numel()] = piece
        everything = padded.new_empty(dist.get_world_size() * padded.numel())
        dist.all_gather_into_tensor(everything, padded)
        parameter.copy_(everything[: parameter.numel()].view_as(parameter))
