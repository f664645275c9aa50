"""DTensors know the layouts and put the collectives in: the layers say only how inputs, weights and outputs lie."""

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.nn import functional as F


def mesh_of(group, device):
    return DeviceMesh.from_group(group if group is not None else dist.group.WORLD, device.type)


def kept(tensor, dim, mesh):
    if tensor.shape[dim] % mesh.size():
        raise ValueError(f"a width of {tensor.shape[dim]} on {mesh.size()} ranks")
    return nn.Parameter(tensor.detach().chunk(mesh.size(), dim)[mesh.get_local_rank()].clone())


class ColumnParallelLinear(nn.Module):
    def __init__(self, linear, group=None, gather_output=False):
        super().__init__()
        self.mesh, self.gather_output = mesh_of(group, linear.weight.device), gather_output
        self.weight = kept(linear.weight, 0, self.mesh)
        self.bias = None if linear.bias is None else kept(linear.bias, 0, self.mesh)

    def forward(self, x):
        flat = DTensor.from_local(x.reshape(-1, x.shape[-1]), self.mesh, [Replicate()], run_check=False)
        weight = DTensor.from_local(self.weight, self.mesh, [Shard(0)], run_check=False)
        bias = None if self.bias is None else DTensor.from_local(self.bias, self.mesh, [Shard(0)], run_check=False)
        y = F.linear(flat, weight, bias)
        if self.gather_output:
            y = y.redistribute(placements=[Replicate()])
        y = y.to_local()
        return y.reshape(*x.shape[:-1], y.shape[-1])


class RowParallelLinear(nn.Module):
    def __init__(self, linear, group=None):
        super().__init__()
        self.mesh = mesh_of(group, linear.weight.device)
        self.weight = kept(linear.weight, 1, self.mesh)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())

    def forward(self, x):
        own = F.linear(x, self.weight)
        whole = DTensor.from_local(own, self.mesh, [Partial()], run_check=False).redistribute(placements=[Replicate()])
        y = whole.to_local()
        return y if self.bias is None else y + self.bias


class ParallelMLP(nn.Module):
    def __init__(self, up, down, group=None):
        super().__init__()
        self.up = ColumnParallelLinear(up, group)
        self.down = RowParallelLinear(down, group)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))
