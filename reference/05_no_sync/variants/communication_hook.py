"""DDP's communication hook sums instead of averaging, so that the weights are plain shares of all samples."""

import torch
import torch.distributed as dist


def summed(group, bucket):
    """A communication hook: the sum over the ranks, without DDP's division."""
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def train_step(ddp_model, optimizer, micro_batches, loss_fn):
    if not micro_batches:
        raise ValueError("micro_batches is empty")
    if not getattr(ddp_model, "sums_gradients", False):
        ddp_model.register_comm_hook(None, summed)
        ddp_model.sums_gradients = True
    counts = torch.zeros(dist.get_world_size(), dtype=torch.int64, device=micro_batches[0][0].device)
    counts[dist.get_rank()] = sum(len(targets) for _, targets in micro_batches)
    dist.all_reduce(counts)
    optimizer.zero_grad()
    numbers, total = range(len(micro_batches)), counts.sum()
    losses = [micro_loss(ddp_model, micro_batches, number, total, loss_fn) for number in numbers]
    optimizer.step()
    return float(torch.stack(losses).sum() / counts[dist.get_rank()])


def micro_loss(ddp_model, micro_batches, number, total, loss_fn):
    """Backward of one micro-batch; its loss times its samples."""
    inputs, targets = micro_batches[number]
    if number < len(micro_batches) - 1:
        with ddp_model.no_sync():
            return backward(loss_fn(ddp_model(inputs), targets), len(targets), total)
    return backward(loss_fn(ddp_model(inputs), targets), len(targets), total)


def backward(loss, samples, total):
    (loss * (samples / total)).backward()
    return loss.detach() * samples
