"""DDP stays quiet in every micro-batch. In the last one hooks start an asynchronous all-reduce of each gradient."""

import torch
import torch.distributed as dist


def train_step(ddp_model, optimizer, micro_batches, loss_fn):
    if not micro_batches:
        raise ValueError("micro_batches is empty")
    samples = sum(len(targets) for _, targets in micro_batches)
    total = torch.tensor(samples, dtype=torch.float64, device=micro_batches[0][0].device)
    dist.all_reduce(total)
    optimizer.zero_grad()
    works, hooks, loss_sum = [], [], 0.0

    def send(parameter):
        works.append(dist.all_reduce(parameter.grad, async_op=True))

    with ddp_model.no_sync():
        for number, (inputs, targets) in enumerate(micro_batches):
            if number == len(micro_batches) - 1:
                hooks = [one.register_post_accumulate_grad_hook(send) for one in ddp_model.parameters()]
            loss = loss_fn(ddp_model(inputs), targets)
            (loss * len(targets) / total).backward()
            loss_sum += loss.item() * len(targets)
    for work in works:
        work.wait()
    for hook in hooks:
        hook.remove()
    optimizer.step()
    return loss_sum / samples
