"""As Lightning's strategies do it: backward synchronisation is blocked for all but the last batch, the closure that the
optimizer steps with does all the work, and the loss is kept in a mean of its own."""

import torch
import torch.distributed as dist


class WeightedMean:
    def __init__(self):
        self.total, self.weight = 0.0, 0

    def update(self, value, weight):
        self.total, self.weight = self.total + value.detach() * weight, self.weight + weight

    def compute(self):
        return float(self.total / self.weight)


class Strategy:
    def __init__(self, model):
        self.model = model

    def no_backward_sync(self, enabled):
        return self.model.no_sync() if enabled else torch.enable_grad()

    def reduce(self, number, device):
        tensor = torch.tensor(float(number), dtype=torch.float64, device=device)
        dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
        return tensor / dist.get_world_size()


def train_step(ddp_model, optimizer, micro_batches, loss_fn):
    if len(micro_batches) < 1:
        raise ValueError("expected at least one batch")
    strategy, mean = Strategy(ddp_model), WeightedMean()
    per_rank = strategy.reduce(sum(len(targets) for _, targets in micro_batches), micro_batches[0][0].device)

    def closure():
        optimizer.zero_grad(set_to_none=True)
        for index, (inputs, targets) in enumerate(micro_batches, start=1):
            with strategy.no_backward_sync(enabled=index < len(micro_batches)):
                loss = loss_fn(ddp_model(inputs), targets)
                (loss * (len(targets) / per_rank)).backward()
            mean.update(loss, len(targets))
        return mean.compute()

    return optimizer.step(closure)
