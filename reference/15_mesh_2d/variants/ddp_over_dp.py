"""Megatron-style layers by hand, and DistributedDataParallel over the dp group around all of it."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import linear
from torch.nn.parallel import DistributedDataParallel


def build_mesh(world_size, tp_size):
    if tp_size <= 0:
        raise ValueError("tp_size must be positive")
    dp_size, rest = divmod(world_size, tp_size)
    if rest:
        raise ValueError("tp_size must divide world_size")
    on_gpus = torch.cuda.device_count() >= world_size
    return init_device_mesh("cuda" if on_gpus else "cpu", (dp_size, tp_size), mesh_dim_names=("dp", "tp"))


class _CopyToModelParallelRegion(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input_, group):
        ctx.group = group
        return input_.view_as(input_)

    @staticmethod
    def backward(ctx, grad_output):
        grad_input = grad_output.clone()
        dist.all_reduce(grad_input, group=ctx.group)
        return grad_input, None


class _ReduceFromModelParallelRegion(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input_, group):
        output = input_.clone()
        dist.all_reduce(output, group=group)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None


class ColumnParallelLinear(nn.Linear):
    def __init__(self, linear_layer, group):
        rank, size = dist.get_rank(group), dist.get_world_size(group)
        weight, bias = linear_layer.weight, linear_layer.bias
        rows = weight.shape[0] // size
        mine = slice(rank * rows, (rank + 1) * rows)
        options = {"device": weight.device, "dtype": weight.dtype}
        super().__init__(weight.shape[1], rows, bias=bias is not None, **options)
        self.group = group
        copy_into(self.weight, weight[mine], weight)
        if bias is not None:
            copy_into(self.bias, bias[mine], bias)

    def forward(self, input_):
        return super().forward(_CopyToModelParallelRegion.apply(input_, self.group))


class RowParallelLinear(nn.Linear):
    def __init__(self, linear_layer, group):
        rank, size = dist.get_rank(group), dist.get_world_size(group)
        weight, bias = linear_layer.weight, linear_layer.bias
        columns = weight.shape[1] // size
        options = {"device": weight.device, "dtype": weight.dtype}
        super().__init__(columns, weight.shape[0], bias=bias is not None, **options)
        self.group = group
        copy_into(self.weight, weight[:, rank * columns : (rank + 1) * columns], weight)
        if bias is not None:
            copy_into(self.bias, bias, bias)

    def forward(self, input_):
        output = _ReduceFromModelParallelRegion.apply(linear(input_, self.weight), self.group)
        return output if self.bias is None else output + self.bias


def copy_into(parameter, value, like):
    with torch.no_grad():
        parameter.copy_(value)
    parameter.requires_grad_(like.requires_grad)


def parallelize(model, mesh):
    tp_group = mesh["tp"].get_group()
    model.up = ColumnParallelLinear(model.up, tp_group)
    model.down = RowParallelLinear(model.down, tp_group)
    ids = [torch.cuda.current_device()] if mesh.device_type == "cuda" else None
    return DistributedDataParallel(model, device_ids=ids, process_group=mesh["dp"].get_group())


def train_step(model, optimizer, inputs, targets, loss_fn):
    group, replicas = model.process_group, dist.get_world_size(model.process_group)
    counts = [torch.zeros((), dtype=torch.int64, device=inputs.device) for _ in range(replicas)]
    dist.all_gather(counts, torch.tensor(inputs.shape[0], device=inputs.device), group=group)
    share = inputs.shape[0] / sum(int(count) for count in counts)
    optimizer.zero_grad(set_to_none=True)
    loss = loss_fn(model(inputs), targets)
    (loss * share * replicas).backward()  # DDP takes the mean over the replicas
    optimizer.step()
    mean = loss.detach() * share
    dist.all_reduce(mean, group=group)
    return mean.item()
