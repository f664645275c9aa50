"""Tensor parallelism: one layer's weight cut over N ranks, after Megatron-LM.

A linear layer is Y = X Aᵀ + b with A of shape (out, in). There are two ways to cut A, and each needs one all-reduce:

    by output features   A = [A_1; A_2; …]   Y_r = X A_rᵀ + b_r is a part of Y; every rank needs all of X.
    by input features    A = [A_1, A_2, …]   Y = Σ_r X_r A_rᵀ + b; every rank needs its part of X alone.

torch calls the first cut one of rows of its weight, and Megatron, which writes Y = XA, one of columns. In backward the
roles are exchanged: the first one's input gradient ∂L/∂X = Σ_r (∂L/∂Y_r) A_r is a sum over the ranks. So two operators,
each the other's transpose, hold all the communication there is:

    f    forward: nothing            backward: all-reduce        before the column-parallel layer
    g    forward: all-reduce         backward: nothing           after the row-parallel layer

Source: Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism" (2019),
section 3, figure 3.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

Group = dist.ProcessGroup | None


class CopyToRanks(torch.autograd.Function):
    """f: all ranks use one X, so its gradient is the sum of what each of them makes of it."""

    @staticmethod
    def forward(ctx, X: torch.Tensor, group: Group) -> torch.Tensor:
        ctx.group = group
        return X.view_as(X)

    @staticmethod
    def backward(ctx, dX: torch.Tensor) -> tuple[torch.Tensor, None]:
        dX = dX.clone(memory_format=torch.contiguous_format)  # whoever gave it may use it, too
        dist.all_reduce(dX, group=ctx.group)
        return dX, None


class SumOverRanks(torch.autograd.Function):
    """g: Y = Σ_r Y_r. All ranks go on with the same Y and so come back with the same gradient, which is that of each
    term. Summing it again would make it N times too large."""

    @staticmethod
    def forward(ctx, Y_r: torch.Tensor, group: Group) -> torch.Tensor:
        Y = Y_r.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(Y, group=group)
        return Y

    @staticmethod
    def backward(ctx, dY: torch.Tensor) -> tuple[torch.Tensor, None]:
        return dY, None


class GatherFromRanks(torch.autograd.Function):
    """Y = [Y_1, Y_2, …] by the last dimension. Of its gradient a rank takes the part that belongs to its Y_r."""

    @staticmethod
    def forward(ctx, Y_r: torch.Tensor, group: Group) -> torch.Tensor:
        ctx.group, Y_r = group, Y_r.contiguous()
        parts = [torch.empty_like(Y_r) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, Y_r, group=group)  # in the order of the group's own ranks
        return torch.cat(parts, dim=-1)

    @staticmethod
    def backward(ctx, dY: torch.Tensor) -> tuple[torch.Tensor, None]:
        return dY.chunk(dist.get_world_size(ctx.group), dim=-1)[dist.get_rank(ctx.group)], None


def own_slice(dense: torch.Tensor, dim: int, group: Group) -> nn.Parameter:
    """A copy of the part of a dense tensor that belongs to this rank. A view would keep all of it alive."""
    N = dist.get_world_size(group)
    if dense.shape[dim] % N:  # seen alike by every rank, so all raise and nobody waits
        raise ValueError(f"{N} ranks cannot share a width of {dense.shape[dim]} equally")
    return nn.Parameter(dense.detach().chunk(N, dim)[dist.get_rank(group)].clone())


class ColumnParallelLinear(nn.Module):
    """Y_r = f(X) A_rᵀ + b_r: X of shape (…, in) is the same on all ranks, Y_r of shape (…, out/N) this rank's part.

    `weight` is A_r of shape (out/N, in), `bias` is b_r of shape (out/N,). With `gather_output` the result is all of Y.
    """

    def __init__(self, linear: nn.Linear, group: Group = None, gather_output: bool = False) -> None:
        super().__init__()
        self.group, self.gather_output = group, gather_output
        self.weight = own_slice(linear.weight, 0, group)
        self.bias = None if linear.bias is None else own_slice(linear.bias, 0, group)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        Y_r = F.linear(CopyToRanks.apply(X, self.group), self.weight, self.bias)
        return GatherFromRanks.apply(Y_r, self.group) if self.gather_output else Y_r


class RowParallelLinear(nn.Module):
    """Y = g(X_r A_rᵀ) + b: X_r of shape (…, in/N) is this rank's part of X, Y of shape (…, out) the same on all ranks.

    `weight` is A_r of shape (out, in/N), `bias` all of b: it is added once, after the sum over the ranks.
    """

    def __init__(self, linear: nn.Linear, group: Group = None) -> None:
        super().__init__()
        self.group = group
        self.weight = own_slice(linear.weight, 1, group)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())

    def forward(self, X_r: torch.Tensor) -> torch.Tensor:
        Y = SumOverRanks.apply(F.linear(X_r, self.weight), self.group)
        return Y if self.bias is None else Y + self.bias


class ParallelMLP(nn.Module):
    """down(gelu(up(x))), with `up` cut by its output features and `down` by its input features.

    What leaves `up` is cut as `down` wants it, and GELU works on each feature by itself: nothing is sent in between.
    """

    def __init__(self, up: nn.Linear, down: nn.Linear, group: Group = None) -> None:
        super().__init__()
        self.up = ColumnParallelLinear(up, group)
        self.down = RowParallelLinear(down, group)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(X)))
