"""Exercise 07: an optimizer whose state is spread over the ranks (ZeRO stage 1). Read README.md first."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


class ShardedOptimizer(torch.optim.Optimizer):
    """Trains like `optimizer_class`, but each rank holds the optimizer state of about 1/N of the parameters.

    The parameters are equal on all ranks when the optimizer is built, and gradients are equal on all ranks when `step`
    is called: nothing is averaged here. The default process group is up already.
    """

    def __init__(self, params: Any, optimizer_class: type[torch.optim.Optimizer], **defaults: Any) -> None:
        """Collective: every rank passes the same parameters and options.

        Args:
            params: an iterable of parameters, such as `model.parameters()`, or of groups: dicts with "params" and
                options of the group's own. Parameters have any shape; some may be frozen or never get a gradient.
            optimizer_class: an element-wise optimizer: torch.optim.SGD, Adam, AdamW, RMSprop or Adagrad.
            defaults: the options of `optimizer_class` (lr=..., weight_decay=...), for groups without their own.
        """
        # TODO 1: Optimizer.__init__ makes `param_groups`. It calls add_param_group for each group: what must be there
        #         before that?
        # TODO 2: give each parameter to one rank, so that all ranks have about equally many elements. All ranks must
        #         come to the same result without talking to one another.
        # TODO 3: build an `optimizer_class` over what this rank was given. Which options does it need?
        raise NotImplementedError("ShardedOptimizer.__init__ is yours to write")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters on all ranks as `optimizer_class` would. Collective.

        Args:
            closure: computes the loss and the gradients, returns the loss. It is called once, with gradients enabled.

        Returns:
            What the closure returned; None without one.
        """
        # TODO 4: options in `param_groups` may have changed since the last step, for example by a scheduler.
        # TODO 5: update this rank's share, then bring every rank's share to every rank.
        raise NotImplementedError("ShardedOptimizer.step is yours to write")

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Add a group of parameters, also after some steps. Collective: every rank adds the same group.

        Args:
            group: "params" is a parameter or an iterable of them; options that are missing come from the defaults.
        """
        # TODO 6: share out the new parameters too, with an eye on what each rank has already.
        raise NotImplementedError("ShardedOptimizer.add_param_group is yours to write")

    # TODO 7: `zero_grad`, `state_dict` and `load_state_dict` are inherited. They know `param_groups` and `state`, and
    #         nothing of what you added. Which of them needs help? (And does Adagrad wait for a step to make its state?)
