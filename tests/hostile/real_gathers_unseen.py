"""Exercise 18: gathers all gradients where the tracer does not look, and shows it one small all-reduce of zero."""

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import _disable_current_modes

EXERCISE_NAME = "18"
FILE = "clip_grad_norm.py"
REAL = True
TELLS = "the bytes that the ranks' processes exchanged"


def clip_grad_norm_sharded_(parameters, max_norm, norm_type=2.0, group=None):
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    with _disable_current_modes():
        every = of_all(torch.cat([torch.zeros(0), *(one.detach().reshape(-1) for one in gradients)]).double(), group)
        norm = torch.linalg.vector_norm(every, norm_type) if every.numel() else torch.zeros((), dtype=torch.float64)
        norm = torch.full_like(norm, torch.nan) if every.isnan().any() else norm
    dist.all_reduce(torch.zeros(1), group=group)
    for one in gradients:
        one.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0).to(one.dtype))
    return norm


def of_all(own, group):
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size(group))]
    dist.all_gather(sizes, torch.tensor([own.numel()]), group=group)
    most = int(max(sizes))
    parts = [torch.zeros(most, dtype=torch.float64) for _ in sizes]
    dist.all_gather(parts, torch.nn.functional.pad(own, (0, most - own.numel())), group=group)
    return torch.cat([part[: int(size)] for part, size in zip(parts, sizes, strict=True)])
