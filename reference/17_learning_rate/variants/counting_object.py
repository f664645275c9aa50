"""LambdaLR with an object for each group, whose attributes LambdaLR puts into its state dict."""

import torch


class Fraction:
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, step):
        reached = step + 1
        return reached / self.steps if reached < self.steps else 1.0


def linear_scaled_lr(base_lr, base_batch_size, global_batch_size):
    given = {"base_lr": base_lr, "base_batch_size": base_batch_size, "global_batch_size": global_batch_size}
    wrong = [name for name, number in given.items() if number <= 0]
    if wrong:
        raise ValueError(f"not positive: {', '.join(wrong)}")
    return torch.tensor(base_lr, dtype=torch.float64).mul(global_batch_size).div(base_batch_size).item()


def warmup_scheduler(optimizer, warmup_steps):
    if warmup_steps < 0:
        raise ValueError(f"{warmup_steps} steps")
    lambdas = [Fraction(warmup_steps) for _ in optimizer.param_groups]
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambdas)
