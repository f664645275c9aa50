"""Without autograd functions: a hook on an alias of the inputs is f, and what is added without a gradient is g."""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def share_of(size, group):
    n = dist.get_world_size(group)
    if size % n != 0:
        raise ValueError(f"{size} features on {n} ranks")
    return slice(dist.get_rank(group) * (size // n), (dist.get_rank(group) + 1) * (size // n))


class ColumnParallelLinear(nn.Module):
    def __init__(self, linear, group=None, gather_output=False):
        super().__init__()
        rows = share_of(linear.out_features, group)
        self.group, self.gather_output, self.rows = group, gather_output, rows
        self.weight = nn.Parameter(torch.empty_like(linear.weight[rows]))
        self.register_parameter(
            "bias", None if linear.bias is None else nn.Parameter(torch.empty_like(linear.bias[rows]))
        )
        with torch.no_grad():
            self.weight.copy_(linear.weight[rows])
            if self.bias is not None:
                self.bias.copy_(linear.bias[rows])

    def _sum(self, grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad, group=self.group)
        return grad

    def forward(self, x):
        x = x.view_as(x)  # hooks on the caller's own tensor would see every other use of it
        if x.requires_grad:
            x.register_hook(self._sum)
        y = F.linear(x, self.weight, self.bias)
        if not self.gather_output:
            return y
        n, rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        parts = [torch.empty(y.shape, dtype=y.dtype, device=y.device) for _ in range(n)]
        dist.all_gather(parts, y.detach().contiguous(), group=self.group)
        parts[rank] = y
        return torch.cat(parts, -1)


class RowParallelLinear(nn.Module):
    def __init__(self, linear, group=None):
        super().__init__()
        columns = share_of(linear.in_features, group)
        self.group = group
        self.weight = nn.Parameter(linear.weight.data[:, columns].clone().contiguous())
        self.register_parameter("bias", None if linear.bias is None else nn.Parameter(linear.bias.data.clone()))

    def forward(self, x):
        own = F.linear(x, self.weight)
        total = own.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=self.group)
        y = own + (total - own.detach())
        return y if self.bias is None else y + self.bias


class ParallelMLP(nn.Module):
    def __init__(self, up, down, group=None):
        super().__init__()
        self.up, self.down = ColumnParallelLinear(up, group), RowParallelLinear(down, group)
        self.layers = nn.Sequential(self.up, nn.GELU(), self.down)

    def forward(self, x):
        return self.layers(x)
