"""Each parameter's gradient sets out for the dp group as soon as it is accumulated; the tp borders are torch's own
all-gather and reduce-scatter forms: g gathers the parts and adds them up itself. That all ranks begin with equal models
is made sure of."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import linear


def build_mesh(world_size, tp_size):
    if tp_size not in range(1, world_size + 1) or world_size % tp_size:
        raise ValueError(f"tp_size is {tp_size}")
    device = "cuda" if torch.cuda.device_count() >= world_size else "cpu"
    return init_device_mesh(device, (world_size // tp_size, tp_size), mesh_dim_names=("dp", "tp"))


class GatherAndAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part, group):
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, part.contiguous(), group=group)
        return torch.stack(parts).sum(0)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Split(nn.Module):
    """`up` and `down` in one class: the kind of layer is told by the dimension that is split."""

    def __init__(self, dense, dim, group):
        super().__init__()
        self.dim, self.group = dim, group
        place, size = dist.get_rank(group), dist.get_world_size(group)
        for name in ("weight", "bias"):
            tensor = getattr(dense, name)
            if tensor is not None and (name == "weight" or dim == 0):
                mine = tensor.detach().tensor_split(size, dim)[place].clone()
                tensor = nn.Parameter(mine, requires_grad=tensor.requires_grad)
            self.register_parameter(name, tensor)

    def forward(self, x):
        if self.dim:
            total = GatherAndAdd.apply(linear(x, self.weight), self.group)
            return total if self.bias is None else total + self.bias
        if x.requires_grad:
            x = x.view_as(x)
            x.register_hook(self.add_up)
        return linear(x, self.weight, self.bias)

    def add_up(self, gradient):
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(gradient, group=self.group)
        return gradient


class Parallel(nn.Module):
    def __init__(self, module, mesh):
        super().__init__()
        self.module, self.group, self.works = module, mesh.get_group("dp"), []
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self.send)

    def send(self, parameter):
        self.works.append(dist.all_reduce(parameter.grad, group=self.group, async_op=True))

    def wait(self):
        for work in self.works:
            work.wait()
        self.works.clear()

    def forward(self, inputs):
        return self.module(inputs)


def expect_equal_models(model):
    with torch.no_grad():
        sums = torch.stack([parameter.double().sum() for parameter in model.parameters()])
    largest = sums.clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    if not largest.equal(sums):
        raise RuntimeError("the models are not equal")


def parallelize(model, mesh):
    expect_equal_models(model)
    for name, dim in (("up", 0), ("down", 1)):
        setattr(model, name, Split(getattr(model, name), dim, mesh.get_group("tp")))
    return Parallel(model, mesh)


def train_step(model, optimizer, inputs, targets, loss_fn):
    for parameter in model.parameters():
        parameter.grad = None
    total = torch.tensor(float(len(inputs)), dtype=torch.float64, device=inputs.device)
    dist.all_reduce(total, group=model.group)
    part = loss_fn(model(inputs), targets) * (len(inputs) / total.item())
    part.backward()
    model.wait()
    optimizer.step()
    mean = part.detach().clone()
    dist.all_reduce(mean, group=model.group)
    return mean.item()
