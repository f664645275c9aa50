"""Functional collectives, which return new tensors: what is scattered by one operator is gathered by its transpose."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn


def ready(tensor):
    return funcol.wait_tensor(tensor)


class _F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return ready(funcol.all_reduce(g.contiguous(), "sum", ctx.group)), None


class _G(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return ready(funcol.all_reduce(x.contiguous(), "sum", group))

    @staticmethod
    def backward(ctx, g):
        return g, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        whole = ready(funcol.all_gather_tensor(x.unsqueeze(0).contiguous(), 0, group))
        return torch.cat(list(whole.unbind(0)), dim=-1)

    @staticmethod
    def backward(ctx, g):
        # All ranks have the same gradient, so the mean that a reduce-scatter brings back is this rank's part of it.
        n = dist.get_world_size(ctx.group)
        stacked = torch.stack(g.tensor_split(n, dim=-1)).contiguous()
        return ready(funcol.reduce_scatter_tensor(stacked, "sum", 0, ctx.group)).squeeze(0) / n, None


class _Sliced(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        self.group = group if group is not None else dist.group.WORLD
        self.n, self.r = self.group.size(), dist.get_rank(self.group)

    def part(self, tensor, dim):
        if tensor.size(dim) % self.n:
            raise ValueError("the group does not divide this width")
        width = tensor.size(dim) // self.n
        return nn.Parameter(
            tensor.detach().narrow(dim, self.r * width, width).clone(memory_format=torch.contiguous_format)
        )


class ColumnParallelLinear(_Sliced):
    def __init__(self, linear, group=None, gather_output=False):
        super().__init__(linear, group)
        self.gather_output = gather_output
        self.weight = self.part(linear.weight, 0)
        self.bias = self.part(linear.bias, 0) if linear.bias is not None else None

    def forward(self, x):
        y = nn.functional.linear(_F.apply(x, self.group), self.weight, self.bias)
        return _Gather.apply(y, self.group) if self.gather_output else y


class RowParallelLinear(_Sliced):
    def __init__(self, linear, group=None):
        super().__init__(linear, group)
        self.weight = self.part(linear.weight, 1)
        self.bias = nn.Parameter(linear.bias.detach().clone()) if linear.bias is not None else None

    def forward(self, x):
        y = _G.apply(nn.functional.linear(x, self.weight), self.group)
        return y if self.bias is None else y + self.bias


class ParallelMLP(nn.Module):
    def __init__(self, up, down, group=None):
        super().__init__()
        self.up = ColumnParallelLinear(up, group=group)
        self.down = RowParallelLinear(down, group=group)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))
