"""ZeRO stage 1: every rank has all parameters, but only its share of the optimizer's state.

Each parameter belongs to one rank. A step updates the rank's own parameters with an ordinary optimizer, which holds
state for these alone, and then every owner broadcasts its new values.

Sources: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (SC 2020), section
5.1 (P_os); the PyTorch pages "Distributed Optimizers" (ZeroRedundancyOptimizer) and "torch.optim".
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


class ShardedOptimizer(torch.optim.Optimizer):
    """A drop-in for `optimizer_class`, as long as that treats every element by itself.

    `param_groups` lists all parameters, like that of any optimizer. `local` does the work: an `optimizer_class` with
    the same groups, but only this rank's parameters in them, so that some may be empty. The two share one `state`, and
    therefore the inherited `state_dict` knows all groups and this rank's state. The inherited `zero_grad` is right too.
    """

    def __init__(self, params: Any, optimizer_class: type[torch.optim.Optimizer], **defaults: Any) -> None:
        """Collective: every rank passes the same parameters and options."""
        self.owners: dict[torch.Tensor, int] = {}
        self.loads: Counter[int] = Counter()  # how many elements each rank owns
        self.local: torch.optim.Optimizer | None = None
        super().__init__(params, defaults)  # calls add_param_group for each group
        self.local = optimizer_class([self._own_part(group) for group in self.param_groups], **defaults)
        copy_options(self.local.param_groups, self.param_groups)  # what was left at its default: schedulers need "lr"
        self.defaults = self.local.defaults
        self.state = self.local.state

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Add a group and deal out its parameters. Every rank adds the same ones, so all come to the same result."""
        super().add_param_group(group)  # fills in the options that the group lacks
        for parameter in group["params"]:
            owner = min(range(dist.get_world_size()), key=self.loads.__getitem__)  # who has least so far
            self.owners[parameter] = owner
            self.loads[owner] += parameter.numel()
        if self.local is not None:
            self.local.add_param_group(self._own_part(group))

    def _own_part(self, group: dict[str, Any]) -> dict[str, Any]:
        """The group with this rank's parameters alone, possibly none. An optimizer accepts an empty group."""
        own = [parameter for parameter in group["params"] if self.owners[parameter] == dist.get_rank()]
        return {**group, "params": own}

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update this rank's parameters, then gather those of all ranks. Collective; returns the closure's loss."""
        copy_options(self.param_groups, self.local.param_groups)  # a scheduler may have changed them
        loss = self.local.step(closure)
        for parameter, owner in self.owners.items():  # the same order on every rank
            dist.broadcast(parameter, owner)
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned on the same rank: all options, and the state of what it owns."""
        super().load_state_dict(state_dict)
        self.local.state = self.state  # loading has made a new dictionary


def copy_options(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
    """Copy all that the groups of `source` hold to those of `target`, apart from the parameters."""
    for group, other in zip(source, target, strict=True):
        other.update({name: value for name, value in group.items() if name != "params"})
