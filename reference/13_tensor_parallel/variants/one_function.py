"""All of a layer in one autograd function with the formulas by hand, as in Megatron's own: in backward the all-reduce
of the input's gradient runs while the weight's gradient is computed."""

import torch
import torch.distributed as dist
from torch import nn


class ColumnLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, group):
        ctx.save_for_backward(x, weight)
        ctx.has_bias, ctx.group = bias is not None, group
        y = x @ weight.t()
        return y + bias if bias is not None else y

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dx = work = None
        if ctx.needs_input_grad[0]:
            dx = (dy @ weight).contiguous()
            work = dist.all_reduce(dx, group=ctx.group, async_op=True)
        flat = dy.reshape(-1, dy.shape[-1])
        dw = flat.t() @ x.reshape(-1, x.shape[-1])
        db = flat.sum(0) if ctx.has_bias else None
        if work is not None:
            work.wait()
        return dx, dw, db, None


class RowLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, group):
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        y = (x @ weight.t()).contiguous()
        dist.all_reduce(y, group=group)
        return y + bias if bias is not None else y

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        flat = dy.reshape(-1, dy.shape[-1])
        dw = flat.t() @ x.reshape(-1, x.shape[-1])
        return dy @ weight, dw, flat.sum(0) if ctx.has_bias else None, None


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, group):
        ctx.n, ctx.r = dist.get_world_size(group), dist.get_rank(group)
        rows = y.reshape(-1, y.shape[-1]).t().contiguous()  # features first, so that parts lie one after the other
        whole = rows.new_empty((ctx.n * rows.shape[0], rows.shape[1]))
        dist.all_gather_into_tensor(whole, rows, group=group)
        return whole.t().reshape(*y.shape[:-1], whole.shape[0])

    @staticmethod
    def backward(ctx, dy):
        width = dy.shape[-1] // ctx.n
        return dy[..., ctx.r * width : (ctx.r + 1) * width], None


def own_part(tensor, dim, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    if tensor.shape[dim] % n > 0:
        raise ValueError(f"width {tensor.shape[dim]} cannot be divided among {n} ranks")
    index = torch.arange(tensor.shape[dim], device=tensor.device).view(n, -1)[r]
    return nn.Parameter(tensor.detach().index_select(dim, index))


class ColumnParallelLinear(nn.Module):
    def __init__(self, linear, group=None, gather_output=False):
        super().__init__()
        self.group, self.gather_output = group, gather_output
        self.weight = own_part(linear.weight, 0, group)
        self.bias = own_part(linear.bias, 0, group) if linear.bias is not None else None

    def forward(self, x):
        y = ColumnLinear.apply(x, self.weight, self.bias, self.group)
        return Gather.apply(y, self.group) if self.gather_output else y


class RowParallelLinear(nn.Module):
    def __init__(self, linear, group=None):
        super().__init__()
        self.group = group
        self.weight = own_part(linear.weight, 1, group)
        self.bias = nn.Parameter(linear.bias.detach().clone()) if linear.bias is not None else None

    def forward(self, x):
        return RowLinear.apply(x, self.weight, self.bias, self.group)


class ParallelMLP(nn.Module):
    def __init__(self, up, down, group=None):
        super().__init__()
        self.up = ColumnParallelLinear(up, group)
        self.down = RowParallelLinear(down, group)
        self.activation = nn.GELU()

    def forward(self, x):
        return self.down(self.activation(self.up(x)))
