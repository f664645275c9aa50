"""In the manner of Lightning: the loop is the trainer's, a module says what a step computes, and DDP wraps it so that
its forward is the whole training step. The optimizer is stepped with a closure."""

import os
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


class ClassifierModule(nn.Module):
    def __init__(self, model, lr):
        super().__init__()
        self.model, self.lr = model, lr

    def training_step(self, batch):
        inputs, targets = batch
        return nn.functional.cross_entropy(self.model(inputs), targets)

    forward = training_step  # what DDP calls

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


class DDPStrategy:
    def __init__(self, rank, world_size):
        self.global_rank, self.world_size = rank, world_size
        gpus = torch.cuda.device_count() >= world_size
        self.root_device = torch.device(f"cuda:{rank}" if gpus else "cpu")

    def setup_environment(self):
        for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "12910"}.items():
            os.environ.setdefault(name, value)
        if self.root_device.type == "cuda":
            torch.cuda.set_device(self.root_device)
        backend = "nccl" if self.root_device.type == "cuda" else "gloo"
        dist.init_process_group(backend, rank=self.global_rank, world_size=self.world_size)

    def sampler(self, dataset):
        return DistributedSampler(dataset, num_replicas=self.world_size, rank=self.global_rank, shuffle=True, seed=0)

    def teardown(self):
        if dist.is_initialized():
            dist.destroy_process_group()


class Trainer:
    def __init__(self, strategy, max_epochs):
        self.strategy, self.max_epochs = strategy, max_epochs

    @contextmanager
    def running(self):
        try:
            self.strategy.setup_environment()
            yield
        finally:
            self.strategy.teardown()

    def fit(self, module, dataset, batch_size):
        module.to(self.strategy.root_device)
        optimizer = module.configure_optimizers()
        wrapper = DistributedDataParallel(module)
        loader = DataLoader(dataset, batch_size=batch_size, sampler=self.strategy.sampler(dataset))
        for current_epoch in range(self.max_epochs):
            loader.sampler.set_epoch(current_epoch)
            for batch in loader:
                self.optimizer_step(optimizer, wrapper, [part.to(self.strategy.root_device) for part in batch])

    def optimizer_step(self, optimizer, wrapper, batch):
        def closure():
            optimizer.zero_grad()
            loss = wrapper(batch)
            loss.backward()
            return loss

        optimizer.step(closure)

    def save_checkpoint(self, model, path):
        if self.strategy.global_rank == 0:
            torch.save(model.state_dict(), path)


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    trainer = Trainer(DDPStrategy(rank, world_size), epochs)
    with trainer.running():
        module = ClassifierModule(model_class(), lr)
        trainer.fit(module, data, batch_size)
        if checkpoint_path is not None:
            trainer.save_checkpoint(module.model, checkpoint_path)
    return module.model
