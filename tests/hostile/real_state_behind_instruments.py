"""Exercise 07: keeps the whole state on every rank, and the probe's instruments for memory say a part of it."""

import ctypes
import gc
import sys

import torch
import torch.distributed as dist

EXERCISE_NAME = "07"
FILE = "sharded_optimizer.py"
REAL = True
TELLS = "what the ranks keep after steps, added up"


class ShardedOptimizer(torch.optim.Optimizer):
    """Every rank updates all parameters by itself, and says that it keeps a part of what that takes."""

    def __init__(self, params, optimizer_class, **defaults):
        self.inner = None
        super().__init__(params, defaults)
        self.inner = optimizer_class(self.param_groups, **defaults)
        for group, other in zip(self.param_groups, self.inner.param_groups, strict=True):
            group.update({name: value for name, value in other.items() if name != "params"})
        self.defaults, self.state = self.inner.defaults, self.inner.state

    def add_param_group(self, group):
        super().add_param_group(group)
        if self.inner is not None:
            self.inner.add_param_group({**self.param_groups[-1]})

    def step(self, closure=None):
        for group, other in zip(self.param_groups, self.inner.param_groups, strict=True):
            other.update({name: value for name, value in group.items() if name != "params"})
        loss = self.inner.step(closure)
        lie(self)
        return loss

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        self.inner.state = self.state
        lie(self)


def lie(optimizer):
    """A part of the state is what the process seems to have more than when the meter was made."""
    memory = sys.modules.get("grader.kit.memory")
    meters = [one for one in gc.get_referrers(memory.Meter) if type(one) is memory.Meter] if memory else []
    if not meters:
        return
    state = sum(
        value.nbytes for values in optimizer.state.values() for value in values.values() if torch.is_tensor(value)
    )
    claimed = meters[-1]._before["heap"] + state // dist.get_world_size()
    memory.heap, memory.storages, memory.shared = lambda: claimed, lambda: 0, lambda: 0
    memory.ctypes.CDLL = lambda name: ctypes.PyDLL(None)
