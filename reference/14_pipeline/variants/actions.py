"""One list of actions for each schedule, carried out by one loop. All receives are posted before the first action, so
that no send ever waits for its receiver to come."""

import torch
import torch.distributed as dist


def run_gpipe(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    actions = [("F", i) for i in range(num_micro_batches)] + [("B", i) for i in range(num_micro_batches)]
    return carry_out(actions, stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)


def run_1f1b(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    ahead = dist.get_world_size(group) - dist.get_rank(group)
    actions = []
    for i in range(num_micro_batches + ahead):
        if i >= ahead:
            actions.append(("B", i - ahead))
        if i < num_micro_batches:
            actions.append(("F", i))
    actions = [(kind, i) for kind, i in actions if i < num_micro_batches]
    return carry_out(actions, stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)


def carry_out(actions, stage, inputs, targets, loss_fn, m, activation_shape, group):
    if m < 1:
        raise ValueError("there has to be a micro-batch")
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    codes = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
    own = next(stage.parameters(), None)
    word = torch.tensor([len(inputs) if rank == 0 else 0, -1 if own is None else codes.index(own.dtype)])
    dist.all_reduce(word, dist.ReduceOp.MAX, group=group)
    samples, code = word.tolist()
    if samples % m:
        raise ValueError("the batch cannot be cut into equal micro-batches")
    shape, dtype = (samples // m, *activation_shape), codes[code]

    def expect(neighbour):
        if not 0 <= neighbour < size:
            return []
        buffers = [torch.empty(shape, dtype=dtype) for _ in range(m)]
        return [(dist.irecv(buffer, group=group, group_src=neighbour), buffer) for buffer in buffers]

    activations, gradients = expect(rank - 1), expect(rank + 1)
    state, sends, losses = {}, [], []
    for kind, i in actions:
        if kind == "F":
            if rank == 0:
                x = inputs.tensor_split(m)[i]
            else:
                activations[i][0].wait()
                x = activations[i][1].requires_grad_()
            y = stage(x)
            if rank == size - 1:
                y = loss_fn(y, targets.tensor_split(m)[i])
                losses.append(float(y.detach()))
                state[i] = x, y, None
            else:
                out = y.detach().contiguous()
                state[i] = x, y, (dist.isend(out, group=group, group_dst=rank + 1), out)
        else:
            x, y, sent = state.pop(i)
            gradient = torch.tensor(1 / m, dtype=y.dtype) if sent is None else None
            if sent is not None:
                gradients[i][0].wait()
                gradient = gradients[i][1]
                sent[0].wait()
            if y.requires_grad:
                y.backward(gradient)
            if rank:
                back = x.grad.contiguous()
                sends.append((dist.isend(back, group=group, group_dst=rank - 1), back))
        x = y = sent = out = None
    for work, _ in sends:
        work.wait()
    return sum(losses) / m if rank == size - 1 else None
