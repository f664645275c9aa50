"""Exercise 03: the complete training function of one rank. Read README.md first."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import Dataset


def train_ddp(
    rank: int,
    world_size: int,
    model_class: type[nn.Module],
    data: Dataset,
    epochs: int,
    *,
    batch_size: int = 32,
    lr: float = 0.1,
    checkpoint_path: str | os.PathLike | None = None,
) -> nn.Module:
    """Train a model data-parallel and return it. Collective: every rank of the world calls this.

    Args:
        rank: this rank, from 0 to world_size - 1.
        world_size: how many ranks train together; 1 is legal.
        model_class: called without arguments it gives a new model. Ranks may get different initial values.
        data: a map-style data set of `len(data)` pairs `data[i] = (x, y)`. x is a floating-point tensor, one sample
            without a batch dimension; y is the sample's class, an int64 tensor without dimensions.
        epochs: how often each sample is used; 0 is legal.
        batch_size: samples in a batch of one rank. Only the last batch of an epoch may be smaller.
        lr: the learning rate of plain SGD.
        checkpoint_path: where rank 0 writes the final state dict; None: nowhere.

    Returns:
        The trained model itself, an instance of `model_class` and not a wrapper, on every rank.

    Whatever is raised on this rank reaches the caller without waiting for other ranks, and the process group is left in
    any case.
    """
    # TODO 1: join the process group (exercise 01). MASTER_ADDR and MASTER_PORT: the environment's, else your defaults.
    # TODO 2: build the model on this rank's device. How do all ranks get rank 0's initial values?
    # TODO 3: give this rank its shard of the data (exercise 02), in batches of `batch_size`.
    # TODO 4: train with torch.optim.SGD and nn.CrossEntropyLoss. What makes the order another one in each epoch?
    # TODO 5: let rank 0 alone save the final state dict, where a path is given.
    # TODO 6: leave the group, also when something above raises, and return the model.
    raise NotImplementedError("train_ddp is yours to write")
