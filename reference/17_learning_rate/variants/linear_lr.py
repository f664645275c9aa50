"""torch's own LinearLR, whose `total_iters` counts the steps between the first rate and the whole one."""

from fractions import Fraction

from torch.optim.lr_scheduler import ConstantLR, LinearLR


def linear_scaled_lr(base_lr, base_batch_size, global_batch_size):
    if min(base_lr, base_batch_size, global_batch_size) <= 0:
        raise ValueError("all three must be positive")
    return float(base_lr * Fraction(global_batch_size, base_batch_size))


def warmup_scheduler(optimizer, warmup_steps):
    if warmup_steps < 0:
        raise ValueError(f"warmup_steps is {warmup_steps}")
    if warmup_steps == 0:
        return ConstantLR(optimizer, factor=1.0)
    return LinearLR(optimizer, start_factor=1 / warmup_steps, total_iters=warmup_steps - 1)
