"""One collective for all that is sent: reduce and broadcast, flat gradients with a count, and a gather instead of a
ring."""

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector
from torch.utils.data import DataLoader, Sampler


def mean_loss(loss, group=None):
    mean = loss.detach().clone() / dist.get_world_size(group)
    dist.reduce(mean, group_dst=0, group=group)
    dist.broadcast(mean, group_src=0, group=group)
    return float(mean)


def exchange(first, second, group=None):
    ranks = dist.get_world_size(group)
    firsts = [torch.empty(first.shape, dtype=first.dtype, device=first.device) for _ in range(ranks)]
    seconds = [torch.empty(second.shape, dtype=second.dtype, device=second.device) for _ in range(ranks)]
    dist.all_gather(seconds, second.detach().contiguous(), group=group)
    dist.all_gather(firsts, first.detach().contiguous(), group=group)
    return sum(firsts), torch.stack(seconds)


def pass_around(tensor, group=None):
    own = tensor.detach().contiguous()
    every = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, own, group=group)
    return every[dist.get_rank(group) - 1]


def broadcast_in_group(tensor, group):
    own = tensor.detach().contiguous()
    every = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, own, group=group)
    with torch.no_grad():
        tensor.copy_(every[0])


class Shuffled(Sampler):
    """Counts its epochs by itself."""

    def __init__(self, samples):
        self.samples, self.epoch = samples, -1

    def __iter__(self):
        self.epoch += 1
        order = torch.randperm(self.samples, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        order += order[: -len(order) % dist.get_world_size()]
        return iter(order[dist.get_rank() :: dist.get_world_size()])


def train_epochs(ddp_model, dataset, epochs, batch_size, optimizer, loss_fn):
    loader = DataLoader(dataset, batch_size=batch_size, sampler=Shuffled(len(dataset)))
    device = next(ddp_model.parameters()).device
    for _ in range(epochs):
        batches = [(inputs.to(device), targets.to(device)) for inputs, targets in loader]
        train_averaged(ddp_model.module, batches, optimizer, loss_fn)


def train_averaged(model, batches, optimizer, loss_fn, steps=None):
    """The flat gradient and whether there is a batch are added up together."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for step in range(len(batches) if steps is None else steps):
        optimizer.zero_grad()
        if step < len(batches):
            inputs, targets = batches[step]
            loss_fn(model(inputs), targets).backward()
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in trained]
        flat = torch.cat([parameters_to_vector(gradients), torch.tensor([float(step < len(batches))]).to(gradients[0])])
        dist.all_reduce(flat)
        flat, count = flat[:-1] / flat[-1], 0
        for one in trained:
            one.grad = flat[count : count + one.numel()].view_as(one)
            count += one.numel()
        optimizer.step()


def train_branches(model, batches, optimizer, loss_fn):
    train_averaged(model, batches, optimizer, loss_fn)


def train_uneven(model, batches, optimizer, loss_fn):
    lengths = torch.zeros(dist.get_world_size(), dtype=torch.int64, device=next(model.parameters()).device)
    lengths[dist.get_rank()] = len(batches)
    dist.all_reduce(lengths)
    train_averaged(model, batches, optimizer, loss_fn, steps=int(lengths.max()))


def train_by_hand(model, batches, optimizer, loss_fn):
    train_averaged(model, batches, optimizer, loss_fn)


def find_culprit(dumps):
    lists = {}
    for rank, dump in dumps.items():
        for entry in sorted(dump, key=lambda entry: entry["sequence"]):
            lists.setdefault(entry["group"], {}).setdefault(rank, []).append(entry)
    finished = [rank for rank, dump in dumps.items() if {entry["state"] for entry in dump} <= {"completed"}]
    for by_rank in lists.values():
        last = max(own[-1]["sequence"] for own in by_rank.values())
        for number in range(1, last + 1):
            answers = []
            for rank, own in by_rank.items():
                place = number - own[0]["sequence"]
                if 0 <= place < len(own):
                    answers.append((own[place]["operation"], own[place]["bytes"], rank))
                elif place >= len(own) and rank in finished:
                    answers.append(("", 0, rank))
            for operation, size, rank in answers:
                same = sum((operation, size) == other[:2] for other in answers)
                if same <= len(answers) // 2:
                    return rank, number
    return None
