"""By hand: rank 0's state is broadcast, one flat all-reduce takes all gradients, SGD and the loss are written out."""

import os

import torch
import torch.distributed as dist


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    gpus = torch.cuda.device_count() >= world_size
    device = torch.device("cuda", rank) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    model = model_class().to(device)  # built before the group is joined
    address = f"tcp://{os.environ.get('MASTER_ADDR', 'localhost')}:{os.environ.get('MASTER_PORT', '29500')}"
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if gpus else "gloo", init_method=address, rank=rank, world_size=world_size
    )
    try:
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)
        for epoch in range(epochs):
            for numbers in batches(len(data), rank, world_size, batch_size, epoch):
                pairs = [data[number] for number in numbers]
                inputs = torch.stack([x for x, _ in pairs]).to(device)
                targets = torch.tensor([int(y) for _, y in pairs], device=device)
                step(model, inputs, targets, world_size, lr)
        if rank == 0 and checkpoint_path is not None:
            torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, checkpoint_path)
        dist.barrier()
    finally:
        dist.destroy_process_group()
    return model


def batches(samples, rank, world_size, batch_size, epoch):
    """Lists of this rank's sample numbers: blocks of the epoch's permutation, which is repeated as padding."""
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(1234 + epoch))
    share = -(-samples // world_size)
    own = [int(order[place % samples]) for place in range(rank * share, (rank + 1) * share)]
    return [own[start : start + batch_size] for start in range(0, share, batch_size)]


def step(model, inputs, targets, world_size, lr):
    parameters = list(model.parameters())
    log_probabilities = model(inputs).log_softmax(dim=1)
    loss = -log_probabilities[torch.arange(len(targets)), targets].mean()
    gradients = torch.autograd.grad(loss, parameters)
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    dist.all_reduce(flat)
    flat /= world_size
    with torch.no_grad():
        pieces = flat.split([parameter.numel() for parameter in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.sub_(lr * piece.view_as(parameter))
