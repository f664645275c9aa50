"""Each rate from the one before, by the quotient of two neighbouring fractions: (k + 1)/k."""

from torch.optim.lr_scheduler import LRScheduler


class Chained(LRScheduler):
    def __init__(self, optimizer, warmup_steps):
        self.warmup_steps = warmup_steps
        super().__init__(optimizer)

    def get_lr(self):
        k = self.last_epoch
        if k == 0:
            return [group["lr"] / max(self.warmup_steps, 1) for group in self.optimizer.param_groups]
        if k < self.warmup_steps:
            return [group["lr"] * (k + 1) / k for group in self.optimizer.param_groups]
        return [group["lr"] for group in self.optimizer.param_groups]


def linear_scaled_lr(base_lr, base_batch_size, global_batch_size):
    for number in (base_lr, base_batch_size, global_batch_size):
        if number <= 0:
            raise ValueError(f"must be positive, got {number}")
    lr_per_sample = base_lr / base_batch_size
    return lr_per_sample * global_batch_size


def warmup_scheduler(optimizer, warmup_steps):
    if warmup_steps < 0:
        raise ValueError(f"warmup_steps must be at least 0, got {warmup_steps}")
    return Chained(optimizer, warmup_steps)
