"""Slices as plain parameters; in forward they and the activations become DTensors, which find out what to sum."""

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.nn import functional as F


def mesh_of(group):
    group = dist.group.WORLD if group is None else group
    return DeviceMesh.from_group(group, "cuda" if "nccl" in dist.get_backend_config(group) else "cpu")


def cut(tensor, dim, mesh):
    if tensor.shape[dim] % mesh.size():
        raise ValueError(f"a width of {tensor.shape[dim]} is not divisible by {mesh.size()}")
    return nn.Parameter(tensor.detach().chunk(mesh.size(), dim)[mesh.get_local_rank()].clone())


def spread(tensor, mesh, placement):
    return DTensor.from_local(tensor, mesh, [placement], run_check=False)


class ColumnParallelLinear(nn.Module):
    def __init__(self, linear, group=None, gather_output=False):
        super().__init__()
        self.mesh, self.gather_output = mesh_of(group), gather_output
        self.weight = cut(linear.weight, 0, self.mesh)
        self.register_parameter("bias", None if linear.bias is None else cut(linear.bias, 0, self.mesh))

    def forward(self, inputs):
        rows = spread(inputs.reshape(-1, inputs.shape[-1]), self.mesh, Replicate())
        outputs = rows @ spread(self.weight, self.mesh, Shard(0)).t()
        if self.bias is not None:
            outputs = outputs + spread(self.bias, self.mesh, Shard(0))
        if self.gather_output:
            outputs = outputs.redistribute(placements=[Replicate()])
        outputs = outputs.to_local()
        return outputs.reshape(*inputs.shape[:-1], outputs.shape[-1])


class RowParallelLinear(nn.Module):
    def __init__(self, linear, group=None):
        super().__init__()
        self.mesh = mesh_of(group)
        self.weight = cut(linear.weight, 1, self.mesh)
        self.register_parameter("bias", None if linear.bias is None else nn.Parameter(linear.bias.detach().clone()))

    def forward(self, inputs):
        rows = spread(inputs.reshape(-1, inputs.shape[-1]), self.mesh, Shard(1))
        partial = rows @ spread(self.weight, self.mesh, Shard(1)).t()
        outputs = partial.redistribute(placements=[Replicate()]).to_local()
        outputs = outputs.reshape(*inputs.shape[:-1], len(self.weight))
        return outputs if self.bias is None else outputs + self.bias


class ParallelMLP(nn.Module):
    def __init__(self, up, down, group=None):
        super().__init__()
        self.up = ColumnParallelLinear(up, group)
        self.down = RowParallelLinear(down, group)

    def forward(self, inputs):
        return self.down(F.gelu(self.up(inputs)))
