"""Exercise 10: an optimizer that shards gradients and state (ZeRO stage 2). Read README.md first."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


class Zero2Optimizer(torch.optim.Optimizer):
    """Averages the ranks' gradients and trains like `optimizer_class`, but each rank holds 1/N of the averaged
    gradients and of the optimizer's state.

    The parameters are equal on all ranks when the optimizer is built. Each rank computes gradients of its own; when
    `step` is called they are those of its own batch. The default process group is up already.
    """

    def __init__(self, params: Any, optimizer_class: type[torch.optim.Optimizer], **defaults: Any) -> None:
        """Collective: every rank passes the same parameters and options.

        Args:
            params: an iterable of parameters, such as `model.parameters()`, or of groups: dicts with "params" and
                options of the group's own. Parameters have any shape and dtype; some may be frozen.
            optimizer_class: an element-wise optimizer: torch.optim.SGD, Adam, AdamW or Adagrad.
            defaults: the options of `optimizer_class` (lr=..., weight_decay=...), for groups without their own.
        """
        # TODO 1: Optimizer.__init__ makes `param_groups`. It calls add_param_group for each group: what must be there
        #         before that, and what should happen in it?
        # TODO 2: decide which elements of each parameter this rank owns. All ranks must come to the same result without
        #         talking to one another. What if N does not divide the number of elements?
        # TODO 3: build an `optimizer_class` over what this rank owns. Which options does it need?
        raise NotImplementedError("Zero2Optimizer.__init__ is yours to write")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters on all ranks as `optimizer_class` would with the mean of the ranks' gradients.
        Collective.

        Args:
            closure: computes the loss and the gradients, returns the loss. It is called once, with gradients enabled.

        Returns:
            What the closure returned; None without one.
        """
        # TODO 4: which parameters have a gradient on some rank? All ranks have to agree before they communicate.
        # TODO 5: bring each gradient, summed over the ranks, to whoever owns its elements; make a mean of it; let go of
        #         the gradient that the parameter had.
        # TODO 6: update what this rank owns, then bring every rank's new values to every rank.
        raise NotImplementedError("Zero2Optimizer.step is yours to write")
