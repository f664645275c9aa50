"""Exercise 17: a learning rate for a larger batch, and a warm-up towards it. Read README.md first.

No process group is needed: every rank calls these with the same arguments and gets the same rates.
"""

import torch


def linear_scaled_lr(base_lr: float, base_batch_size: int, global_batch_size: int) -> float:
    """The learning rate for another batch size by the linear scaling rule (Goyal et al. 2017, section 2.1).

    Args:
        base_lr: the rate that a recipe gives.
        base_batch_size: the batch, in samples, for which it gives it.
        global_batch_size: the samples of one optimizer step, over all ranks and all micro-batches.

    Returns:
        base_lr · global_batch_size / base_batch_size, a Python float.

    Raises:
        ValueError: one of the three is not positive.
    """
    # TODO 1: what has to be refused?
    # TODO 2: the rule is one line.
    raise NotImplementedError("linear_scaled_lr is yours to write")


def warmup_scheduler(optimizer: torch.optim.Optimizer, warmup_steps: int) -> torch.optim.lr_scheduler.LRScheduler:
    """A scheduler that leads every parameter group linearly up to its own rate. Stepped after each optimizer step.

    Args:
        optimizer: one that has had no scheduler before. What stands in the `lr` of a group is that group's own rate.
        warmup_steps: W >= 0. Optimizer step k, counted from 0, is taken at (k + 1)/W of the rate while k < W, and at
            the rate itself from k = W - 1 on. 0 changes nothing.

    Returns:
        A scheduler that goes on as if nothing had happened when a new one, made over a new optimizer, and that
        optimizer have loaded the state dicts of the old ones.

    Raises:
        ValueError: warmup_steps is negative.
    """
    # TODO 1: what has to be refused, and what does W = 0 mean for a quotient?
    # TODO 2: at which fraction is step k taken?
    # TODO 3: which scheduler of torch.optim.lr_scheduler takes that fraction? When does it set the first rate?
    raise NotImplementedError("warmup_scheduler is yours to write")
