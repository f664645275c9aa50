"""The optimizer's rates are lowered to the first ones by hand, and torch's MultiplicativeLR takes them up again. And a
batch that is k times as large, by its logarithm."""

import math

from torch.optim.lr_scheduler import MultiplicativeLR


def linear_scaled_lr(base_lr, base_batch_size, global_batch_size):
    if base_lr <= 0 or base_batch_size <= 0 or global_batch_size <= 0:
        raise ValueError("not positive")
    return math.exp(math.log(base_lr) + math.log(global_batch_size) - math.log(base_batch_size))


def warmup_scheduler(optimizer, warmup_steps):
    if warmup_steps < 0:
        raise ValueError("negative")
    for group in optimizer.param_groups:
        group["lr"] /= max(1, warmup_steps)
    return MultiplicativeLR(optimizer, lambda step: (step + 1) / step if step < warmup_steps else 1.0)
