"""A scheduler that overrides `step`, and writes the rates into the groups by itself."""

from torch.optim.lr_scheduler import LRScheduler


def linear_scaled_lr(base_lr, base_batch_size, global_batch_size):
    if not (base_lr > 0 and base_batch_size > 0 and global_batch_size > 0):
        raise ValueError("rates and batch sizes are positive numbers")
    return float(base_lr * (global_batch_size / base_batch_size))


class Warmup(LRScheduler):
    def __init__(self, optimizer, total):
        self.optimizer, self.total, self.done = optimizer, total, -1
        self.base_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self.step()

    def step(self, epoch=None):
        self.done += 1
        share = 1.0 if self.done >= self.total - 1 else (self.done + 1) / self.total
        self._last_lr = [share * rate for rate in self.base_lrs]
        for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = rate

    def state_dict(self):
        return {"done": self.done, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state_dict):
        self.base_lrs = list(state_dict["base_lrs"])
        self.done = state_dict["done"] - 1
        self.step()


def warmup_scheduler(optimizer, warmup_steps):
    if warmup_steps < 0:
        raise ValueError(warmup_steps)
    return Warmup(optimizer, warmup_steps)
