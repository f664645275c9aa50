"""Functional collectives, which give new tensors. What is split is written into the dense layers themselves, as smaller
parameters; hooks of the two layers stand at the borders of the tp region."""

import torch
from torch import nn
from torch.distributed import _functional_collectives as funcol
from torch.distributed.device_mesh import DeviceMesh


def build_mesh(world_size, tp_size):
    if tp_size < 1 or world_size % tp_size:
        raise ValueError(f"tp_size {tp_size} does not divide {world_size}")
    ranks = torch.arange(world_size).view(-1, tp_size)
    device = "cuda" if torch.cuda.device_count() >= world_size else "cpu"
    return DeviceMesh(device, ranks, mesh_dim_names=("dp", "tp"))


def summed(tensor, mesh):
    return funcol.wait_tensor(funcol.all_reduce(tensor, "sum", (mesh, 0)))


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, mesh):
        return summed(tensor, mesh)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class SumInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, mesh):
        ctx.mesh = mesh
        return tensor.clone()

    @staticmethod
    def backward(ctx, gradient):
        return summed(gradient.contiguous(), ctx.mesh), None


def parallelize(model, mesh):
    tp, place = mesh["tp"], mesh.get_local_rank("tp")
    size = tp.size()
    for layer, name, dim in ((model.up, "weight", 0), (model.up, "bias", 0), (model.down, "weight", 1)):
        dense = getattr(layer, name)
        if dense is not None:
            mine = torch.tensor_split(dense.data, size, dim)[place].contiguous().clone()
            setattr(layer, name, nn.Parameter(mine, dense.requires_grad))
    model.up.out_features //= size
    model.down.in_features //= size
    bias = model.down.bias
    model.down.register_parameter("bias", None)  # it is added once, after the sum
    if bias is not None:
        model.register_parameter("down_bias", bias)
    model.up.register_forward_pre_hook(lambda layer, args: (SumInBackward.apply(args[0], tp),))

    def finish(layer, args, output):
        output = Sum.apply(output, tp)
        return output if bias is None else output + model.down_bias

    model.down.register_forward_hook(finish)
    model.mesh = mesh
    return model


def train_step(model, optimizer, inputs, targets, loss_fn):
    dp = model.mesh["dp"]
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    count = torch.tensor(len(inputs), device=inputs.device)
    counts = funcol.wait_tensor(funcol.all_gather_tensor(count.view(1), 0, (dp, 0)))
    part = loss * len(inputs) / counts.sum()
    part.backward()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.copy_(summed(parameter.grad, dp))
    optimizer.step()
    return summed(part.detach(), dp).item()
