"""As accelerate does it: a context around each micro-batch, which knows whether the gradients are to be synchronised,
and an optimizer that steps and clears only where they are."""

from contextlib import contextmanager, nullcontext

import torch
import torch.distributed as dist


class Accelerator:
    def __init__(self, model, optimizer, steps):
        self.model, self.optimizer, self.steps = model, optimizer, steps
        self.step, self.sync_gradients = 0, False

    @contextmanager
    def accumulate(self):
        self.step += 1
        self.sync_gradients = self.step % self.steps == 0
        with nullcontext() if self.sync_gradients else self.model.no_sync():
            yield

    def gather(self, number):
        numbers = torch.zeros(dist.get_world_size(), dtype=torch.int64, device=number.device)
        dist.all_gather_into_tensor(numbers, number)
        return numbers

    def optimizer_step(self):
        if self.sync_gradients:
            self.optimizer.step()
            self.optimizer.zero_grad()


def train_step(ddp_model, optimizer, micro_batches, loss_fn):
    if not micro_batches:
        raise ValueError("there is nothing to accumulate")
    accelerator = Accelerator(ddp_model, optimizer, len(micro_batches))
    device = micro_batches[0][0].device
    here = torch.tensor([sum(len(targets) for _, targets in micro_batches)], device=device)
    samples = accelerator.gather(here).sum().item()
    optimizer.zero_grad()
    losses = []
    for inputs, targets in micro_batches:
        with accelerator.accumulate():
            loss = loss_fn(ddp_model(inputs), targets) * len(targets)
            losses.append(loss.detach())
            (loss * dist.get_world_size() / samples).backward()
            accelerator.optimizer_step()
    return (torch.stack(losses).sum() / here).item()
