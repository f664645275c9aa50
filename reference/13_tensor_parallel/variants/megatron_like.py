"""As Megatron-LM and fairscale write it: regions of the model between mappings, collectives in place and none for one
rank, and the layers made from an nn.Linear of the slice's size."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def _reduce(x, group):
    if dist.get_world_size(group) == 1:
        return x
    x = x.contiguous()
    dist.all_reduce(x, group=group)
    return x


def _split(x, group):
    size = dist.get_world_size(group)
    if size == 1:
        return x
    return torch.split(x, x.size(-1) // size, dim=-1)[dist.get_rank(group)].contiguous()


def _gather(x, group):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    if size == 1:
        return x
    x = x.contiguous()
    parts = [torch.empty_like(x) for _ in range(size)]
    parts[rank] = x
    dist.all_gather(parts, x, group=group)
    return torch.cat(parts, dim=-1).contiguous()


class _CopyToModelParallelRegion(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, grad):
        return _reduce(grad, ctx.group), None


class _ReduceFromModelParallelRegion(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.mark_dirty(x)
        return _reduce(x, group)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class _GatherFromModelParallelRegion(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return _gather(x, group)

    @staticmethod
    def backward(ctx, grad):
        return _split(grad, ctx.group), None


def divide(numerator, denominator):
    if numerator % denominator:
        raise ValueError(f"{numerator} is not divisible by {denominator}")
    return numerator // denominator


class _Parallel(nn.Module):
    """Holds an nn.Linear of this rank's size, and shows its parameters as its own."""

    def __init__(self, linear, in_features, out_features):
        super().__init__()
        kind = {"device": linear.weight.device, "dtype": linear.weight.dtype}
        self.local = nn.Linear(in_features, out_features, bias=linear.bias is not None, **kind)

    @property
    def weight(self):
        return self.local.weight

    @property
    def bias(self):
        return self.local.bias


class ColumnParallelLinear(_Parallel):
    def __init__(self, linear, group=None, gather_output=False):
        size, rank = dist.get_world_size(group), dist.get_rank(group)
        width = divide(linear.out_features, size)
        super().__init__(linear, linear.in_features, width)
        self.group, self.gather_output = group, gather_output
        state = {name: value[rank * width : (rank + 1) * width] for name, value in linear.state_dict().items()}
        self.local.load_state_dict(state)

    def forward(self, x):
        y = self.local(_CopyToModelParallelRegion.apply(x, self.group))
        return _GatherFromModelParallelRegion.apply(y, self.group) if self.gather_output else y


class RowParallelLinear(_Parallel):
    def __init__(self, linear, group=None):
        size, rank = dist.get_world_size(group), dist.get_rank(group)
        width = divide(linear.in_features, size)
        super().__init__(linear, width, linear.out_features)
        self.group = group
        state = linear.state_dict()
        state["weight"] = state["weight"][:, rank * width : (rank + 1) * width]
        self.local.load_state_dict(state)

    def forward(self, x):
        y = _ReduceFromModelParallelRegion.apply(F.linear(x, self.weight), self.group)
        return y if self.bias is None else y + self.bias


class ParallelMLP(nn.Module):
    def __init__(self, up, down, group=None):
        super().__init__()
        self.up = ColumnParallelLinear(up, group, gather_output=False)
        self.down = RowParallelLinear(down, group)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="none"))
