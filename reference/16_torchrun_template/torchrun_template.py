"""A training script for torchrun that may be killed at any moment and started again.

    torchrun --nproc-per-node 2 --max-restarts 3 torchrun_template.py --epochs 5 --checkpoint digits.pt

torchrun starts this file anew on every rank after a failure, with the same arguments. So the script is one that does
the right thing when it is run twice: it finds out how far it had come, and goes on from there. All that it knows of
the time before stands in the checkpoint; the order of the samples follows from the epoch's number alone.

Sources: the PyTorch pages "torchrun (Elastic Launch)" and "Fault-tolerant Distributed Training with torchrun"; Mohan et
al., "CheckFreq: Frequent, Fine-Grained DNN Checkpointing" (FAST 2021), on what a checkpoint has to hold.
"""

import argparse
import importlib.util
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset


def build_model() -> nn.Module:
    """The model that is trained where no workload is named: 64 pixels to 10 digits."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def build_data() -> Dataset:
    """Scikit-learn's handwritten digits, 1797 pairs of 64 pixels, from 0 to 1, and a digit."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))


def arguments() -> argparse.Namespace:
    """The command line. Whatever is wrong with it ends the script with exit code 2 and a message on stderr."""
    parser = argparse.ArgumentParser(description="Train data-parallel, and go on where an earlier run was stopped.")
    parser.add_argument("--epochs", type=int, required=True, help="how many epochs, those of earlier runs included")
    parser.add_argument("--checkpoint", type=Path, required=True, help="where to resume from and to save to")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=32, help="samples a step on each rank")
    parser.add_argument("--workload", type=Path, help="a Python file with build_model() and build_data()")
    return parser.parse_args()


def load_workload(path: Path | None):
    """The functions build_model and build_data of a file, or of this one. Raises where there are none."""
    if path is None:
        return build_model, build_data
    spec = importlib.util.spec_from_file_location("workload", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build_model, module.build_data


def join_group() -> torch.device:
    """Join the group that torchrun has arranged; under plain `python`, a group of one. Gives this rank's device."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    # LOCAL_RANK counts on this machine, as CUDA does; RANK counts all of them, and is no index of a GPU.
    gpus = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1")) and torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    backend = "nccl" if gpus else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)  # RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are in the environment
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=world_size)
    return device


def load_checkpoint(path: Path, model: nn.Module) -> int:
    """Load what an earlier run has saved, if there is anything. Returns how many epochs are done.

    Every rank reads the file by itself. None can have changed it meanwhile: rank 0 writes it only after the first
    epoch, which no rank can finish before all have come here and have built their replicas.
    """
    if not path.exists():
        return 0
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)  # weights_only: a file cannot run code
    model.load_state_dict(checkpoint["model"])
    return checkpoint["epoch"]


def save_checkpoint(path: Path, model: nn.Module, epoch: int) -> None:
    """Replace the file in one step: whoever is killed meanwhile leaves the old one or the new one, never half of it."""
    temporary = path.with_name(f"{path.name}.tmp")  # in the same folder, for only there renaming is one step
    with temporary.open("wb") as file:
        torch.save({"model": model.state_dict(), "epoch": epoch}, file)
        file.flush()
        os.fsync(file.fileno())  # on disk before it has its name, so that it survives a loss of power
    os.replace(temporary, path)


def train(model: nn.Module, data: Dataset, options: argparse.Namespace, device: torch.device) -> None:
    """Train up to `options.epochs` epochs and save after each. The wrapper is gone when this returns: in torch 2.13 one
    that outlives its group can hang in its destructor."""
    done = load_checkpoint(options.checkpoint, model)
    if done >= options.epochs:
        return
    ddp_model = DistributedDataParallel(model.to(device))  # rank 0's parameters and buffers, on all ranks
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=options.batch_size, sampler=sampler)
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=options.lr)
    loss_fn = nn.CrossEntropyLoss()

    for epoch in range(done, options.epochs):
        sampler.set_epoch(epoch)  # from the epoch's own number, so that a resumed run has the order it would have had
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_fn(ddp_model(inputs.to(device)), targets.to(device)).backward()
            optimizer.step()
        if dist.get_rank() == 0:
            save_checkpoint(options.checkpoint, model, epoch + 1)


@record  # an exception's traceback stands in torchrun's summary, and of several ranks the first one to fail
def main() -> None:
    options = arguments()
    model_of, data_of = load_workload(options.workload)
    device = join_group()
    try:
        train(model_of(), data_of(), options, device)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
