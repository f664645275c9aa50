"""Two dimensions of parallelism: tensor parallel inside "tp", data parallel across "dp".

    dp \\ tp    0   1
       0       0   1      one row holds one copy of the model, cut in slices; its ranks pass the same batch
       1       2   3      one column holds one slice, in as many copies as there are batches

The MLP Z = dropout(GeLU(X A) B) of the paper, with A = up and B = down: A is split by columns, so that GeLU works on
each slice by itself, and B by rows, so that the slices' results are summed once. Two conjugate operators stand at the
borders: f is the identity in forward and an all-reduce in backward, g an all-reduce in forward and the identity in
backward.

Sources: Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism"
(2019), section 3; Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM"
(SC 2021), section 3; the PyTorch recipe "Getting Started with DeviceMesh".
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn.functional import linear


def build_mesh(world_size: int, tp_size: int) -> DeviceMesh:
    """A grid of all ranks, counted row by row: the last dimension's ranks are neighbours."""
    if tp_size < 1 or world_size % tp_size:
        raise ValueError(f"tp_size must be at least 1 and divide {world_size} (got {tp_size})")
    device_type = "cuda" if torch.cuda.device_count() >= world_size else "cpu"
    # tp waits for an all-reduce in the middle of every layer, dp only at the end of a step. So the tp group gets the
    # fast links inside one machine, where neighbouring ranks are.
    return init_device_mesh(device_type, (world_size // tp_size, tp_size), mesh_dim_names=("dp", "tp"))


def parallelize(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Put slices in the place of `up` and `down`; all else stays, replicated. Nothing is sent."""
    group = mesh.get_group("tp")
    model.up = ColumnParallelLinear(model.up, group)
    model.down = RowParallelLinear(model.down, group)
    model.mesh = mesh  # train_step will ask for the dp group
    return model


class ColumnParallelLinear(nn.Module):
    """Y_t = f(X) A_t: some of the outputs, from all inputs. torch keeps A transposed, so columns of A are rows here."""

    def __init__(self, dense: nn.Linear, group: dist.ProcessGroup):
        super().__init__()
        self.group = group
        self.weight = own_slice(dense.weight, 0, group)
        self.bias = None if dense.bias is None else own_slice(dense.bias, 0, group)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return linear(f.apply(X, self.group), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """Z = g(Y_t B_t) + b: all outputs, each a sum of which this rank has one part."""

    def __init__(self, dense: nn.Linear, group: dist.ProcessGroup):
        super().__init__()
        self.group = group
        self.weight = own_slice(dense.weight, 1, group)
        self.bias = dense.bias  # whole on every rank

    def forward(self, Y: torch.Tensor) -> torch.Tensor:
        Z = g.apply(linear(Y, self.weight), self.group)
        return Z if self.bias is None else Z + self.bias  # after the sum, or it would count once a rank


def own_slice(dense: nn.Parameter, dim: int, group: dist.ProcessGroup) -> nn.Parameter:
    """This rank's slice as a parameter with memory of its own, frozen where the dense one is."""
    mine = dense.detach().chunk(group.size(), dim)[group.rank()]
    return nn.Parameter(mine.clone(), requires_grad=dense.requires_grad)


class f(torch.autograd.Function):
    """Copies into the tp group: every rank uses X, so X's gradient is the sum of what all ranks have."""

    @staticmethod
    def forward(ctx, X, group):
        ctx.group = group
        return X

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class g(torch.autograd.Function):
    """Sums over the tp group. Every rank goes on with the sum and has its whole gradient already."""

    @staticmethod
    def forward(ctx, Z, group):
        dist.all_reduce(Z, group=group)
        return Z

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    loss_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> float:
    """One step on the union of the dp batches: L = Σ_d n_d L_d / Σ_d n_d. Every rank calls it."""
    dp = model.mesh.get_group("dp")
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    n = len(inputs)
    totals = torch.stack([loss.detach() * n, torch.full_like(loss, n)])
    dist.all_reduce(totals, group=dp)  # two numbers
    (loss * n / totals[1]).backward()  # this batch's part of the gradient of L; f and g have summed inside the row
    for parameter in model.parameters():
        if parameter.grad is not None:
            # The same slice lives on the ranks of this column, and on no other: never sum over all ranks.
            dist.all_reduce(parameter.grad, group=dp)
    optimizer.step()
    return float(totals[0] / totals[1])
