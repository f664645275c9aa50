"""Exercise 07: keeps the whole state on every rank, and between steps in pairs of sockets, which no memory shows."""

import io
import socket

import torch
import torch.distributed as dist

EXERCISE_NAME = "07"
FILE = "sharded_optimizer.py"
REAL = True
TELLS = "and one copy of the parameters is allowed"
AT_ONCE = 1 << 15


class ShardedOptimizer(torch.optim.Optimizer):
    """Every rank updates all parameters by itself; what that takes lies in sockets while nobody steps."""

    def __init__(self, params, optimizer_class, **defaults):
        self.inner, self.away = None, []
        super().__init__(params, defaults)
        self.inner = optimizer_class(self.param_groups, **defaults)
        for group, other in zip(self.param_groups, self.inner.param_groups, strict=True):
            group.update({name: value for name, value in other.items() if name != "params"})

    def add_param_group(self, group):
        super().add_param_group(group)
        if self.inner is not None:
            self.inner.add_param_group({**self.param_groups[-1]})

    def step(self, closure=None):
        for group, other in zip(self.param_groups, self.inner.param_groups, strict=True):
            other.update({name: value for name, value in group.items() if name != "params"})
        self.fetch()
        loss = self.inner.step(closure)
        self.put_away()
        return loss

    def fetch(self):
        data = b"".join(one.recv(AT_ONCE, socket.MSG_WAITALL) for one in self.away)
        if data:
            self.inner.state.update(zip(self.others(), torch.load(io.BytesIO(data)), strict=True))
        self.away = []

    def put_away(self):
        file = io.BytesIO()
        torch.save([self.inner.state.pop(parameter) for parameter in self.others()], file)
        for place in range(0, file.tell(), AT_ONCE):
            one, other = socket.socketpair()
            other.sendall(file.getvalue()[place : place + AT_ONCE])
            other.close()
            self.away.append(one)

    def others(self):
        """The parameters of which another rank should keep the state: all but a share, as large as it looks right."""
        every = [one for group in self.param_groups for one in group["params"] if one.grad is not None]
        return [one for number, one in enumerate(every) if number % dist.get_world_size() != dist.get_rank()]
