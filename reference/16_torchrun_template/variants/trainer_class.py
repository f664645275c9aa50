"""The shape of PyTorch's tutorial: a Trainer with a snapshot, and a main that is recorded. The attempt's number is
looked at for a message only. What is saved is a copy of the model on the CPU."""

import argparse
import copy
import os
import sys
import uuid

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group, is_initialized
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def build_model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def build_data():
    from sklearn.datasets import load_digits

    digits = load_digits()
    return TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))


class Trainer:
    def __init__(self, model, data, args):
        self.gpu = int(os.environ.get("LOCAL_RANK", "0")) if torch.cuda.is_available() else None
        self.rank = int(os.environ.get("RANK", "0"))
        self.path, self.epochs_run = args.checkpoint, 0
        self.model = model.cuda(self.gpu) if self.gpu is not None else model
        if os.path.exists(self.path):
            self._load_snapshot()
        self.bare = self.model
        self.model = DDP(self.model, device_ids=None if self.gpu is None else [self.gpu])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr)
        self.data = DataLoader(data, batch_size=args.batch_size, shuffle=False, sampler=DistributedSampler(data))

    def _load_snapshot(self):
        snapshot = torch.load(self.path, map_location="cpu", weights_only=True)
        self.model.load_state_dict(snapshot["model"])
        self.epochs_run = snapshot["epoch"]
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        print(f"attempt {attempt}: resuming after epoch {self.epochs_run}", file=sys.stderr)

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        nn.CrossEntropyLoss()(self.model(source), targets).backward()
        self.optimizer.step()

    def _run_epoch(self, epoch):
        self.data.sampler.set_epoch(epoch)
        for source, targets in self.data:
            if self.gpu is None:
                self._run_batch(source, targets)
            else:
                self._run_batch(source.cuda(self.gpu), targets.cuda(self.gpu))

    def _save_snapshot(self, epoch):
        name = os.path.join(os.path.dirname(self.path), f"{uuid.uuid4()}.part")
        model = copy.deepcopy(self.bare).cpu()
        torch.save({"model": model.state_dict(), "epoch": epoch + 1, "seed": torch.initial_seed()}, name)
        os.replace(name, self.path)

    def train(self, epochs):
        for epoch in range(self.epochs_run, epochs):
            self._run_epoch(epoch)
            if self.rank == 0:
                self._save_snapshot(epoch)


def functions_of(path):
    if path is None:
        return build_model, build_data
    names = {"__name__": "workload", "__file__": path}
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), names)
    return names["build_model"], names["build_data"]


@record
def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--lr", type=float, default=1e-1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workload")
    args = parser.parse_args()
    model, data = functions_of(args.workload)
    if "MASTER_ADDR" in os.environ:
        init_process_group("cpu:gloo")
    else:
        from tempfile import NamedTemporaryFile

        with NamedTemporaryFile(delete=False) as meeting:
            pass
        init_process_group("gloo", init_method=f"file://{meeting.name}", rank=0, world_size=1)
    Trainer(model(), data(), args).train(args.epochs)
    if is_initialized():
        destroy_process_group()


if __name__ == "__main__":
    main()
