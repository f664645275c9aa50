"""torch.distributed.nn, whose collectives have gradients. Theirs are those of a loss that is the sum of all ranks'
losses; here all ranks have one loss, so what they sum once too often is divided again."""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dnn
from torch import nn
from torch.nn.functional import gelu, pad
from torch.nn.functional import linear as dense_linear


def default(group):
    return dist.group.WORLD if group is None else group


def cut(tensor, dim, group):
    n = dist.get_world_size(group)
    if tensor.shape[dim] % n:
        raise ValueError(f"{tensor.shape[dim]} is not divisible by {n}")
    return nn.Parameter(tensor.data.tensor_split(n, dim)[dist.get_rank(group)].clone())


def scale_gradient(tensor, factor):
    """The same values; of the gradient, this factor."""
    return tensor.detach() + factor * (tensor - tensor.detach())


class ColumnParallelLinear(nn.Module):
    def __init__(self, linear, group=None, gather_output=False):
        super().__init__()
        self.group, self.gather_output = default(group), gather_output
        self.weight = cut(linear.weight, 0, self.group)
        self.bias = None if linear.bias is None else cut(linear.bias, 0, self.group)

    def forward(self, x):
        if x.requires_grad and torch.is_grad_enabled():
            x = x.clone()
            x.register_hook(lambda g: dnn.all_reduce(g.contiguous(), group=self.group))
        y = dense_linear(x, self.weight, self.bias)
        if self.gather_output:
            # all_gather of this module raises in backward on gloo (2.13) where the group's ranks are not the first ones
            # of the job, so zeros stand in for the others' parts and are summed with them.
            n, r = dist.get_world_size(self.group), dist.get_rank(self.group)
            width = y.shape[-1]
            whole = pad(scale_gradient(y, 1 / n), (r * width, (n - 1 - r) * width))
            y = dnn.all_reduce(whole.contiguous(), group=self.group)
        return y


class RowParallelLinear(nn.Module):
    def __init__(self, linear, group=None):
        super().__init__()
        self.group = default(group)
        self.weight = cut(linear.weight, 1, self.group)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.data.clone())

    def forward(self, x):
        own = dense_linear(x, self.weight)
        others = dnn.all_reduce(own.detach().clone(), group=self.group) - own.detach()
        y = own + others
        return y if self.bias is None else y + self.bias


class ParallelMLP(nn.Module):
    def __init__(self, up, down, group=None):
        super().__init__()
        self.up = ColumnParallelLinear(up, group)
        self.down = RowParallelLinear(down, group)

    def forward(self, x):
        return self.down(gelu(self.up(x)))
