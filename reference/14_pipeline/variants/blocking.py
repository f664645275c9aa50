"""Blocking send and recv alone. Where two neighbours have something for each other, even ranks send first and odd ones
receive first."""

import torch
import torch.distributed as dist


def run_gpipe(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    return run(0, stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)


def run_1f1b(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    return run(1, stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)


def run(alternate, stage, inputs, targets, loss_fn, m, activation_shape, group):
    if m < 1:
        raise ValueError("num_micro_batches")
    r, n = dist.get_rank(group), dist.get_world_size(group)
    dtype = next((p.dtype for p in stage.parameters()), None)
    words = [None] * n
    dist.all_gather_object(words, (None if r else inputs.shape[0], dtype), group=group)
    batch, dtype = words[0][0], next(word for _, word in words if word)
    if batch % m:
        raise ValueError("num_micro_batches does not divide the batch")
    size = batch // m
    last, kept, total = r == n - 1, [], []

    def send(tensor, to):
        if tensor is not None and 0 <= to < n:
            dist.send(tensor.detach().contiguous(), group=group, group_dst=to)

    def receive(source):
        if not 0 <= source < n:
            return None
        tensor = torch.zeros(size, *activation_shape, dtype=dtype)
        dist.recv(tensor, group=group, group_src=source)
        return tensor

    def swap(tensor, neighbour):
        if r % 2 == 0:
            send(tensor, neighbour)
            return receive(neighbour)
        received = receive(neighbour)
        send(tensor, neighbour)
        return received

    def forward(x, i):
        if r == 0:
            x = inputs[i * size : (i + 1) * size]
        else:
            x.requires_grad_(True)
        y = stage(x)
        if last:
            y = loss_fn(y, targets[i * size : (i + 1) * size])
            total.append(y.item())
        kept.append((x, y))
        return None if last else y

    def backward(gradient):
        x, y = kept.pop(0)
        if last:
            gradient = torch.ones_like(y) / m
        if y.requires_grad:
            y.backward(gradient)
        return x.grad

    warm_up = min(n - r - 1, m) if alternate else m
    for i in range(warm_up):
        send(forward(receive(r - 1), i), r + 1)
    arrived = receive(r - 1) if warm_up < m else None
    for i in range(warm_up, m):
        gradient = swap(forward(arrived, i), r + 1)
        if i < m - 1:
            arrived = swap(backward(gradient), r - 1)
        else:
            send(backward(gradient), r - 1)
    for _ in range(warm_up):
        send(backward(receive(r + 1)), r - 1)
    return sum(total) / m if last else None
