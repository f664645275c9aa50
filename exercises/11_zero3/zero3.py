"""Exercise 11: a module whose parameters are spread over the ranks (ZeRO stage 3). Read README.md first."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn


class FullyShardedModule(nn.Module):
    """Computes like `module`, but each rank keeps 1/N of the parameters and gathers them unit by unit as it computes.

    The default process group is up already.
    """

    def __init__(self, module: nn.Module, unit_class: type[nn.Module]) -> None:
        """Collective: every rank passes an equal model of one dtype, on its own device.

        Args:
            module: what is to be trained. It need not work by itself afterwards.
            unit_class: every submodule of this type is one unit; the parameters that are in none are another. Units are
                not nested, and no parameter is shared by two of them.
        """
        # TODO 1: find the units and the parameters of each. A parameter may have two names within a unit.
        # TODO 2: for each unit, keep this rank's slice of its parameters and let go of the rest. What should
        #         `parameters()` yield, so that an optimizer trains the slices?
        # TODO 3: when is a unit gathered, and when is it freed? Forward needs it, and so does backward.
        raise NotImplementedError("FullyShardedModule.__init__ is yours to write")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What `module` returns. Collective."""
        # TODO 4: no more than two units at a time may be whole. What does autograd keep for backward?
        raise NotImplementedError("FullyShardedModule.forward is yours to write")

    def finish_gradient_synchronization(self) -> None:
        """Wait until the gradient of each of `parameters()` is this rank's slice of the mean over the ranks.

        Called once after each backward, before the optimizer steps. Collective.
        """
        # TODO 5: one reduce-scatter for each unit, which may have begun during backward.
        raise NotImplementedError("FullyShardedModule.finish_gradient_synchronization is yours to write")

    def full_state_dict(self) -> dict[str, torch.Tensor]:
        """All parameters and buffers, whole, under the keys that the bare module's state dict has. Collective.

        Returns:
            The same on every rank: plain tensors of the bare module's shapes and dtype.
        """
        # TODO 6: gather each unit, cut it up, and find the names again.
        raise NotImplementedError("FullyShardedModule.full_state_dict is yours to write")
