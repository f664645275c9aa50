"""Two threads a rank talk, one to each neighbour: the main thread puts what it has into queues and never waits for a
send. What a thread has raised is raised again by whoever waits for it."""

import queue
import threading

import torch
import torch.distributed as dist


class Sender(threading.Thread):
    def __init__(self, neighbour, group):
        super().__init__(daemon=True)
        self.neighbour, self.group, self.queue, self.error = neighbour, group, queue.Queue(), None
        self.start()

    def run(self):
        try:
            while (tensor := self.queue.get()) is not None:
                dist.send(tensor, group=self.group, group_dst=self.neighbour)
                tensor = None  # or it would be alive until the next one comes
        except Exception as error:
            self.error = error

    def finish(self):
        self.queue.put(None)
        self.join()
        if self.error:
            raise self.error


def run_gpipe(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    order = "F" * num_micro_batches + "B" * num_micro_batches
    return run(order, stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)


def run_1f1b(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    first = min(dist.get_world_size(group) - dist.get_rank(group) - 1, num_micro_batches)
    order = "F" * first + "FB" * (num_micro_batches - first) + "B" * first
    return run(order, stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)


def run(order, stage, inputs, targets, loss_fn, m, activation_shape, group):
    if m < 1:
        raise ValueError("at least one micro-batch")
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    known = [None] * size
    dtypes = [parameter.dtype for parameter in stage.parameters()]
    dist.all_gather_object(known, {"batch": len(inputs) if rank == 0 else None, "dtypes": dtypes[:1]}, group=group)
    batch = known[0]["batch"]
    if batch % m:
        raise ValueError("parts of different sizes")
    dtype = next(dtype for one in known for dtype in one["dtypes"])
    up = Sender(rank + 1, group) if rank < size - 1 else None
    down = Sender(rank - 1, group) if rank > 0 else None
    forwards, backwards, state, loss = 0, 0, {}, 0.0
    for letter in order:
        if letter == "F":
            part = slice(forwards * batch // m, (forwards + 1) * batch // m)
            x = inputs[part] if down is None else receive(batch // m, activation_shape, dtype, rank - 1, group)
            x = x if down is None else x.requires_grad_()
            y = stage(x)
            if up is None:
                y = loss_fn(y, targets[part]) / m
                loss += y.item()
            else:
                up.queue.put(y.detach().contiguous())
            state[forwards] = x, y
            forwards += 1
        else:
            gradient = None if up is None else receive(batch // m, activation_shape, dtype, rank + 1, group)
            x, y = state.pop(backwards)
            if y.requires_grad:
                torch.autograd.backward(y, gradient)
            if down is not None:
                down.queue.put(x.grad.contiguous())
            backwards += 1
        x = y = None
    for sender in (up, down):
        if sender is not None:
            sender.finish()
    return loss if up is None else None


def receive(samples, shape, dtype, neighbour, group):
    tensor = torch.empty(samples, *shape, dtype=dtype)
    dist.recv(tensor, group=group, group_src=neighbour)
    return tensor
