"""The learning rate of a data-parallel training: scaled with the global batch, and approached by a warm-up.

Notation of Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour" (2017): η is the rate of the
recipe for its batch, k how many times as large the batch is now, kη the rate for it (section 2.1). Section 2.2 has the
warm-up: because kη is too large for a model that changes quickly, it is reached gradually, over W steps.
"""

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler


def linear_scaled_lr(base_lr: float, base_batch_size: int, global_batch_size: int) -> float:
    """kη, where k = global_batch_size / base_batch_size."""
    if base_lr <= 0 or base_batch_size <= 0 or global_batch_size <= 0:
        raise ValueError(
            "base_lr, base_batch_size and global_batch_size must be positive "
            f"(got {base_lr}, {base_batch_size}, {global_batch_size})"
        )
    # k samples' gradients are averaged into one step where the recipe took k steps. If the weights hardly move within
    # those k steps, all their gradients are nearly those at the start, and one step of kη ends where they would have.
    # A true division: k is 1.5 for a batch of 384 and 0.5 for one of 128.
    return float(base_lr * global_batch_size / base_batch_size)


def warmup_scheduler(optimizer: torch.optim.Optimizer, warmup_steps: int) -> LRScheduler:
    """Step s, from 0, is taken at min(1, (s + 1)/W) of each group's own rate; W = 0 is no warm-up."""
    if warmup_steps < 0:
        raise ValueError(f"warmup_steps must not be negative (got {warmup_steps})")

    # LambdaLR multiplies the rates that it found in the groups when it was made, never the last ones, so the fractions
    # cannot compound, groups keep their proportions, and step s is computed from s alone. It calls this once for s = 0
    # when it is made, and so the first optimizer step already has its rate: hence s + 1, for s/W would waste a step at
    # rate 0. It counts s by itself and keeps it, with the rates that it found, in its state dict.
    def fraction(s: int) -> float:
        return (s + 1) / warmup_steps if s + 1 < warmup_steps else 1.0

    return LambdaLR(optimizer, fraction)
