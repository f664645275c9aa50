"""In the manner of detectron2 and ignite: a second group over gloo for what is no tensor of the model, a seed that the
ranks agree on through it, a stream of indices without end, and hooks around the loop."""

import itertools
import os
import secrets

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


class Comm:
    """The ranks: the default group for tensors, and one over gloo for Python objects."""

    def __init__(self, rank, world_size):
        self.rank, self.world_size = rank, world_size
        self.cuda = torch.cuda.device_count() >= world_size
        self.device = torch.device("cuda", rank) if self.cuda else torch.device("cpu")
        if self.cuda:
            torch.cuda.set_device(rank)
        url = "tcp://{}:{}".format(os.environ.get("MASTER_ADDR", "127.0.0.1"), os.environ.get("MASTER_PORT", "50152"))
        dist.init_process_group("nccl" if self.cuda else "gloo", init_method=url, rank=rank, world_size=world_size)
        self.gloo = dist.new_group(backend="gloo")

    def synchronize(self):
        dist.barrier(group=self.gloo)

    def shared_random_seed(self):
        seeds = [None] * self.world_size
        dist.all_gather_object(seeds, secrets.randbelow(2**31), group=self.gloo)
        return seeds[0]


class TrainingSampler:
    """An endless stream: one permutation after another, each made even among the ranks, of which this rank takes its
    turns."""

    def __init__(self, size, comm, seed):
        self.size, self.comm, self.seed = size, comm, seed
        self.share = -(-size // comm.world_size)

    def __iter__(self):
        yield from itertools.islice(self._infinite_indices(), self.comm.rank, None, self.comm.world_size)

    def _infinite_indices(self):
        g = torch.Generator()
        g.manual_seed(self.seed)
        while True:
            order = itertools.cycle(torch.randperm(self.size, generator=g).tolist())
            yield from itertools.islice(order, self.share * self.comm.world_size)


class EpochBatches:
    """The stream, cut into batches of which none goes beyond the end of an epoch."""

    def __init__(self, sampler, batch_size, epochs):
        self.sampler, self.batch_size, self.epochs = sampler, batch_size, epochs

    def __iter__(self):
        stream = iter(self.sampler)
        for _ in range(self.epochs):
            for start in range(0, self.sampler.share, self.batch_size):
                yield list(itertools.islice(stream, min(self.batch_size, self.sampler.share - start)))


class HookBase:
    def after_step(self, trainer):
        pass

    def after_train(self, trainer):
        pass


class LossWriter(HookBase):
    """The losses of all ranks, gathered on rank 0 through the second group."""

    def after_step(self, trainer):
        losses = [None] * trainer.comm.world_size if trainer.comm.rank == 0 else None
        dist.gather_object(trainer.loss, losses, dst=0, group=trainer.comm.gloo)


class PeriodicCheckpointer(HookBase):
    def __init__(self, path):
        self.path = path

    def after_train(self, trainer):
        if trainer.comm.rank == 0 and self.path is not None:
            torch.save(trainer.model.state_dict(), self.path)
        trainer.comm.synchronize()


class SimpleTrainer:
    def __init__(self, comm, model, batches, lr, hooks):
        self.comm, self.model, self.batches, self.hooks = comm, model, batches, hooks
        self.ddp = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(model.parameters(), lr)

    def train(self):
        for inputs, targets in self.batches:
            loss = nn.functional.cross_entropy(self.ddp(inputs.to(self.comm.device)), targets.to(self.comm.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.loss = loss.item()
            for hook in self.hooks:
                hook.after_step(self)
        for hook in self.hooks:
            hook.after_train(self)


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    comm = Comm(rank, world_size)
    try:
        sampler = TrainingSampler(len(data), comm, comm.shared_random_seed())
        batches = DataLoader(data, batch_sampler=EpochBatches(sampler, batch_size, epochs))
        model = model_class().to(comm.device)
        SimpleTrainer(comm, model, batches, lr, [LossWriter(), PeriodicCheckpointer(checkpoint_path)]).train()
        return model
    finally:
        dist.destroy_process_group()
