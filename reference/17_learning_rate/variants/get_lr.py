"""A class of its own, with the rate of every step in closed form."""

from torch.optim.lr_scheduler import LRScheduler


def positive(**numbers):
    for name, number in numbers.items():
        if not number > 0:
            raise ValueError(f"{name} must be positive (got {number})")


def linear_scaled_lr(base_lr, base_batch_size, global_batch_size):
    positive(base_lr=base_lr, base_batch_size=base_batch_size, global_batch_size=global_batch_size)
    return float(base_lr) * (global_batch_size / base_batch_size)


class LinearWarmup(LRScheduler):
    def __init__(self, optimizer, warmup_steps, last_epoch=-1):
        self.warmup_steps = warmup_steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        factor = min(self.last_epoch + 1, self.warmup_steps) / self.warmup_steps if self.warmup_steps else 1.0
        return [base_lr * factor for base_lr in self.base_lrs]


def warmup_scheduler(optimizer, warmup_steps):
    if warmup_steps < 0:
        raise ValueError("a warm-up of negative length")
    return LinearWarmup(optimizer, warmup_steps)
