"""Numbers of Python between two tensors: exactly rounded sums, no ε, nothing sent for one rank."""

import math

import torch
import torch.distributed as dist


def clip_grad_norm_sharded_(parameters, max_norm, norm_type=2.0, group=None):
    if norm_type != 2 and norm_type != float("inf"):
        raise ValueError("only the L2 and the infinity norm")
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = together([one_norm(grad, norm_type) for grad in grads], norm_type)
    if dist.get_world_size(group) > 1:
        device = "cuda" if "nccl" in dist.get_backend_config(group) else "cpu"
        own = torch.tensor([norm], dtype=torch.float64, device=device)
        parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, own, group=group)
        norm = together([part.item() for part in parts], norm_type)
    if math.isnan(norm) or norm > max_norm:
        for grad in grads:
            grad.mul_(max_norm / norm)
    return torch.tensor(norm, dtype=torch.float64)


def one_norm(grad, norm_type):
    values = grad.double()
    if norm_type == 2:
        return values.square().sum().sqrt().item()
    return values.abs().max().item() if values.numel() else 0.0


def together(norms, norm_type):
    if any(math.isnan(norm) for norm in norms):
        return math.nan
    return math.hypot(*norms) if norm_type == 2 else max(norms, default=0.0)
