"""In the manner of minGPT-ddp and PyTorch's series of tutorials on DDP: a trainer that owns model, loader, optimizer
and snapshot, and finds its rank in the environment as under torchrun."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


@dataclass
class TrainerConfig:
    max_epochs: int
    batch_size: int
    learning_rate: float
    snapshot_path: object


def ddp_setup(rank, world_size):
    os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"] = str(rank), str(rank), str(world_size)
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    gpus = torch.cuda.device_count() >= world_size
    if gpus:
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if gpus else "gloo", init_method="env://")
    return torch.device("cuda", rank) if gpus else torch.device("cpu")


class Trainer:
    def __init__(self, config, model_class, train_dataset, device):
        self.config, self.device = config, device
        self.global_rank = int(os.environ["RANK"])
        self.train_loader = self._prepare_dataloader(train_dataset)
        self.model = model_class().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config.learning_rate)
        self.model = DDP(self.model)

    def _prepare_dataloader(self, dataset):
        sampler = DistributedSampler(dataset)
        return DataLoader(dataset, batch_size=self.config.batch_size, shuffle=False, sampler=sampler)

    def _run_batch(self, source, targets):
        with torch.set_grad_enabled(True):
            loss = F.cross_entropy(self.model(source), targets)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _run_epoch(self, epoch):
        self.train_loader.sampler.set_epoch(epoch)
        for source, targets in self.train_loader:
            self._run_batch(source.to(self.device), targets.to(self.device))

    def _save_snapshot(self):
        raw_model = self.model.module if hasattr(self.model, "module") else self.model
        torch.save(raw_model.state_dict(), self.config.snapshot_path)

    def train(self):
        self.model.train()
        for epoch in range(self.config.max_epochs):
            self._run_epoch(epoch)
        if self.global_rank == 0 and self.config.snapshot_path is not None:
            self._save_snapshot()
        return self.model.module


def train_ddp(rank, world_size, model_class, data, epochs, *, batch_size=32, lr=0.1, checkpoint_path=None):
    device = ddp_setup(rank, world_size)
    try:
        return Trainer(TrainerConfig(epochs, batch_size, lr, checkpoint_path), model_class, data, device).train()
    finally:
        dist.destroy_process_group()
