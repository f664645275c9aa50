"""ZeRO stage 2: every rank has all parameters, but only its share of the gradients and of the optimizer's state.

A parameter Ψ is cut into N slices, of which rank i owns the i-th. Data parallel training all-reduces the gradient g and
lets all ranks make the same update. An all-reduce is a reduce-scatter and an all-gather, so do the update in between:

    reduce-scatter g       rank i gets the sum of all ranks' i-th slices of g, and nothing else
    step                   rank i updates its slice of Ψ, with state for this slice alone
    all-gather Ψ           every rank gets every slice

That sends as many bytes as the all-reduce alone. Nobody needs the whole averaged gradient, so nobody ever has it.

Sources: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (SC 2020), sections
5.2 (P_os+g) and 7.1; the PyTorch page "Distributed communication package".
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


class Zero2Optimizer(torch.optim.Optimizer):
    """A drop-in for `optimizer_class`, as long as that treats every element by itself.

    `param_groups` lists all parameters, like that of any optimizer. `local` does the work: an `optimizer_class` with
    the same groups, in which this rank's slice of a parameter stands for the parameter.
    """

    def __init__(self, params: Any, optimizer_class: type[torch.optim.Optimizer], **defaults: Any) -> None:
        """Collective: every rank passes the same parameters and options."""
        self.slices: dict[torch.Tensor, torch.Tensor] = {}
        self.local: torch.optim.Optimizer | None = None
        super().__init__(params, defaults)  # calls add_param_group for each group
        self.local = optimizer_class([self._own_part(group) for group in self.param_groups], **defaults)
        copy_options(self.local.param_groups, self.param_groups)  # what was left at its default: schedulers need "lr"
        self.defaults = self.local.defaults  # and so is what a group lacks that is added later

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Add a group of parameters. Every rank adds the same one."""
        super().add_param_group(group)  # fills in the options that the group lacks
        for parameter in group["params"]:
            self.slices[parameter] = own_slice(padded(parameter)).clone()
        if self.local is not None:
            self.local.add_param_group(self._own_part(group))

    def _own_part(self, group: dict[str, Any]) -> dict[str, Any]:
        return {**group, "params": [self.slices[parameter] for parameter in group["params"]]}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Average the gradients, update; gather. Collective; returns the closure's loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        copy_options(self.param_groups, self.local.param_groups)  # a scheduler may have changed them
        used = self._with_gradient()
        for parameter in used:
            self.slices[parameter].grad = reduce_scattered(parameter)
            parameter.grad = None  # from here on the rank has its slice alone
        self.local.step()
        for parameter in used:
            self.slices[parameter].grad = None
            gather(self.slices[parameter], parameter)
        return loss

    def _with_gradient(self) -> list[torch.Tensor]:
        """The parameters that some rank has a gradient for: the same list on every rank, or they would wait for each
        other for ever. A parameter that no rank has a gradient for is left alone, as by any optimizer."""
        parameters = list(self.slices)
        has = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.uint8)
        has = has.to(parameters[0].device)
        dist.all_reduce(has, dist.ReduceOp.MAX)
        return [parameter for parameter, one in zip(parameters, has.tolist(), strict=True) if one]


def padded(tensor: torch.Tensor) -> torch.Tensor:
    """All elements in one dimension, and zeros until N divides them. They are fewer than N, so a slice has at most one
    element more than 1/N of the parameter."""
    flat = tensor.detach().reshape(-1)
    return torch.nn.functional.pad(flat, (0, -flat.numel() % dist.get_world_size()))


def own_slice(flat: torch.Tensor) -> torch.Tensor:
    """This rank's slice of what N divides."""
    return flat.tensor_split(dist.get_world_size())[dist.get_rank()]


def reduce_scattered(parameter: torch.Tensor) -> torch.Tensor:
    """This rank's slice of the mean gradient. A rank without a gradient has zeros for the others to add."""
    gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
    flat = padded(gradient)
    mine = torch.empty_like(own_slice(flat))
    dist.reduce_scatter_tensor(mine, flat)
    return mine.div_(dist.get_world_size())


def gather(mine: torch.Tensor, parameter: torch.Tensor) -> None:
    """Put all ranks' slices together in the parameter."""
    flat = mine.new_empty(mine.numel() * dist.get_world_size())
    dist.all_gather_into_tensor(flat, mine)
    parameter.copy_(flat[: parameter.numel()].view_as(parameter))


def copy_options(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
    """Copy all that the groups of `source` hold to those of `target`, apart from the parameters."""
    for group, other in zip(source, target, strict=True):
        other.update({name: value for name, value in group.items() if name != "params"})
