"""Two schedulers one after the other: the warm-up, and then whatever comes after it, here a constant rate."""

from torch.optim.lr_scheduler import LambdaLR, LinearLR, SequentialLR


def linear_scaled_lr(base_lr, base_batch_size, global_batch_size):
    if base_lr <= 0.0:
        raise ValueError("base_lr")
    if base_batch_size <= 0:
        raise ValueError("base_batch_size")
    if global_batch_size <= 0:
        raise ValueError("global_batch_size")
    return base_lr * global_batch_size / base_batch_size


def warmup_scheduler(optimizer, warmup_steps):
    if warmup_steps < 0:
        raise ValueError("warmup_steps")
    if warmup_steps <= 1:
        return LambdaLR(optimizer, lambda step: 1.0)
    warm_up = LinearLR(optimizer, start_factor=1.0 / warmup_steps, end_factor=1.0, total_iters=warmup_steps - 1)
    afterwards = LambdaLR(optimizer, lambda step: 1.0)
    return SequentialLR(optimizer, [warm_up, afterwards], milestones=[warmup_steps])
