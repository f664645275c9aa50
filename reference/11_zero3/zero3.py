"""ZeRO stage 3: every rank keeps 1/N of the parameters, of the gradients and of the optimizer's state.

The parameters of a unit, Ψ_u, are one flat vector, cut into N slices. Rank i keeps slice i; it is what the optimizer
trains. The whole vector exists while the unit computes, and no longer:

    forward     all-gather Ψ_u, compute, free
    backward    all-gather Ψ_u, compute, free; reduce-scatter the gradient of Ψ_u

Freeing is the hard part. Autograd saves weights for backward, and what it saves keeps their memory alive. So the vector
stays the same tensor all the time, and only its storage shrinks to nothing and grows again, behind autograd's back.

Sources: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (SC 2020), sections
5.3 (P_os+g+p) and 7.2; Zhao et al., "PyTorch FSDP" (VLDB 2023), section 3.2.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn


class Unit:
    """Parameters that are gathered and freed together: `own`, which sit somewhere in `module`."""

    def __init__(self, module: nn.Module, own: list[nn.Parameter]) -> None:
        self.shapes = [p.shape for p in own]
        number = {p: k for k, p in enumerate(own)}
        self.places = [
            (owner, name, number[p])
            for owner in module.modules()
            for name, p in owner._parameters.items()
            if p in number
        ]
        for owner, name, _ in self.places:
            del owner._parameters[name]  # from now on an attribute, which is a view of `full`
        flat = torch.cat([p.detach().reshape(-1) for p in own])
        flat = nn.functional.pad(flat, (0, -flat.numel() % dist.get_world_size()))
        self.shard = nn.Parameter(flat.tensor_split(dist.get_world_size())[dist.get_rank()].clone())
        self.full = flat.requires_grad_()
        self.bytes = flat.untyped_storage().nbytes()
        self.free()
        self.reduced: list[tuple[dist.Work, torch.Tensor]] = []
        self.full.register_post_accumulate_grad_hook(self._reduce_scatter)
        module.register_forward_pre_hook(self._before_forward)
        module.register_forward_hook(self._after_forward)

    def gather(self, *_: Any) -> None:
        """Collective: make the vector whole, unless it is."""
        storage = self.full.untyped_storage()
        if storage.nbytes() == 0:
            storage.resize_(self.bytes)
            dist.all_gather_into_tensor(self.full.data, self.shard.data)  # .data: autograd must not see it change

    def free(self) -> None:
        """Give the memory of the whole vector back. Whoever refers to it finds it whole again after `gather`."""
        self.full.untyped_storage().resize_(0)

    def views(self) -> list[torch.Tensor]:
        """The parameters as parts of the vector, so that their gradients meet in its gradient."""
        sizes = [shape.numel() for shape in self.shapes]
        parts = self.full[: sum(sizes)].split(sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def _before_forward(self, module: nn.Module, args: Any) -> None:
        self.gather()
        views = self.views()
        for owner, name, number in self.places:
            setattr(owner, name, views[number])

    def _after_forward(self, module: nn.Module, args: Any, output: Any) -> None:
        """The gradient of the output comes before the backward of all that is inside."""
        if isinstance(output, torch.Tensor) and output.requires_grad:
            output.register_hook(self.gather)
        self.free()

    def _reduce_scatter(self, full: torch.Tensor) -> None:
        """Runs once all of the unit's backward is done, however often forward has used it: begin to sum, and free."""
        gradient, full.grad = full.grad, None
        self.free()
        mine = torch.empty_like(self.shard)
        self.reduced.append((dist.reduce_scatter_tensor(mine, gradient, async_op=True), mine))

    def finish(self) -> None:
        """Wait for the sum, and give the shard the mean. What is there already is added to, as backward does."""
        for work, mine in self.reduced:
            work.wait()
            mean = mine / dist.get_world_size()
            self.shard.grad = mean if self.shard.grad is None else self.shard.grad + mean
        self.reduced.clear()


class FullyShardedModule(nn.Module):
    """Every submodule of type `unit_class` is a unit, and what remains is another, which is whole from the beginning of
    forward to its end: so two are whole at a time. Between steps none is."""

    def __init__(self, module: nn.Module, unit_class: type[nn.Module]) -> None:
        """All ranks pass equal models. Their parameters are taken out of them."""
        super().__init__()
        self.module = module
        self.keys = list(module.state_dict())
        blocks = [part for part in module.modules() if isinstance(part, unit_class)]
        owned = [(block, list(block.parameters())) for block in blocks]  # a tied parameter comes once
        inside = {p for _, own in owned for p in own}
        owned.append((module, [p for p in module.parameters() if p not in inside]))
        owned = [(part, own) for part, own in owned if own]
        places = {p: (number, k) for number, (_, own) in enumerate(owned) for k, p in enumerate(own)}
        named = module.named_parameters(remove_duplicate=False)
        self.places = {name: places[p] for name, p in named}  # which parameter of which unit stands under a key
        self.units = [Unit(part, own) for part, own in owned]
        self.shards = nn.ParameterList(unit.shard for unit in self.units)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def finish_gradient_synchronization(self) -> None:
        """Wait until every shard has its averaged gradient. To be called after backward, before the optimizer."""
        for unit in self.units:
            unit.finish()

    @torch.no_grad()
    def full_state_dict(self) -> dict[str, torch.Tensor]:
        """Collective: all parameters and buffers under the bare module's keys, as copies."""
        state = dict(self.module.state_dict())  # the buffers
        values = []
        for unit in self.units:
            unit.gather()
            values.append([view.clone() for view in unit.views()])
            unit.free()
        for name, (number, k) in self.places.items():
            state[name] = values[number][k]
        return {key: state[key].clone() for key in self.keys}
