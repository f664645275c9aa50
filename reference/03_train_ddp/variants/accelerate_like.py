"""In the manner of accelerate: a state of the process, an accelerator whose `prepare` wraps model, optimizer and
loader, and a batch sampler that all ranks agree on, of which each keeps its own part (even_batches)."""

import math
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


class PartialState:
    """The process among the others, and its device."""

    def __init__(self, process_index, num_processes):
        self.process_index, self.num_processes = process_index, num_processes
        cuda = torch.cuda.device_count() >= num_processes
        self.device = torch.device("cuda", process_index) if cuda else torch.device("cpu")
        if cuda:
            torch.cuda.set_device(self.device)
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29500")
        dist.init_process_group("nccl" if cuda else "gloo", rank=process_index, world_size=num_processes)

    def wait_for_everyone(self):
        dist.barrier()


class BatchSamplerShard:
    """Batches of this process. Every epoch has a permutation of its own, the same on all processes, which is made even
    by its own beginning."""

    def __init__(self, size, batch_size, state):
        self.size, self.batch_size, self.state, self.epoch = size, batch_size, state, 0

    def _own(self):
        generator = torch.Generator()
        generator.manual_seed(42 + self.epoch)
        order = torch.randperm(self.size, generator=generator).tolist()
        even = order * self.state.num_processes
        share = -(-self.size // self.state.num_processes)
        return even[: share * self.state.num_processes][self.state.process_index :: self.state.num_processes]

    def __iter__(self):
        own = self._own()
        for start in range(0, len(own), self.batch_size):
            yield own[start : start + self.batch_size]

    def __len__(self):
        share = math.ceil(self.size / self.state.num_processes)
        return math.ceil(share / self.batch_size)


class AcceleratedOptimizer:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()


class DataLoaderShard:
    """A loader that tells its sampler the epoch and moves batches to the device."""

    def __init__(self, loader, device):
        self.loader, self.device = loader, device

    def set_epoch(self, epoch):
        self.loader.batch_sampler.epoch = epoch

    def __iter__(self):
        for batch in self.loader:
            yield tuple(part.to(self.device) for part in batch)


class Accelerator:
    def __init__(self, process_index, num_processes):
        self.state = PartialState(process_index, num_processes)
        self.is_main_process = process_index == 0

    def prepare(self, model, optimizer, dataset, batch_size):
        model.to(self.state.device)
        sampler = BatchSamplerShard(len(dataset), batch_size, self.state)
        loader = DataLoader(dataset, batch_sampler=sampler)
        wrapped = DistributedDataParallel(model)
        return wrapped, AcceleratedOptimizer(optimizer), DataLoaderShard(loader, self.state.device)

    def backward(self, loss):
        loss.backward()

    def unwrap_model(self, model):
        return model.module if isinstance(model, DistributedDataParallel) else model

    def end_training(self):
        dist.destroy_process_group()


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    accelerator = Accelerator(rank, world_size)
    try:
        model = model_class()
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        model, optimizer, loader = accelerator.prepare(model, optimizer, data, batch_size)
        for epoch in range(epochs):
            loader.set_epoch(epoch)
            for inputs, targets in loader:
                loss = torch.nn.functional.cross_entropy(model(inputs), targets)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.state.wait_for_everyone()
        unwrapped = accelerator.unwrap_model(model)
        if accelerator.is_main_process and checkpoint_path is not None:
            torch.save(unwrapped.state_dict(), checkpoint_path)
        return unwrapped
    finally:
        accelerator.end_training()
