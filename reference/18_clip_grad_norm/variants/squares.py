"""The textbook's way: one all-reduce of a sum of squares, or of the largest magnitude. A second number says whether
somebody has a NaN, which gloo's maximum would lose."""

import math

import torch
import torch.distributed as dist


def clip_grad_norm_sharded_(parameters, max_norm, norm_type=2.0, group=None):
    norm_type = float(norm_type)
    if norm_type not in (2.0, math.inf):
        raise ValueError(f"no norm of type {norm_type}")
    grads = [p.grad.detach() for p in parameters if p.grad is not None]
    device = "cuda" if "nccl" in dist.get_backend_config(group) else "cpu"
    if norm_type == 2.0:
        total = torch.zeros(1, dtype=torch.float64, device=device)
        for grad in grads:
            total += grad.double().pow(2).sum().to(device)
        dist.all_reduce(total, group=group)
        norm = total.sqrt()[0]
    else:
        pair = torch.zeros(2, dtype=torch.float64, device=device)
        for grad in grads:
            if grad.numel() > 0:
                largest = grad.abs().max().double()
                pair[0] = max(pair[0], largest.nan_to_num(0.0, posinf=math.inf))
                pair[1] = max(pair[1], largest.isnan())
        dist.all_reduce(pair, op=dist.ReduceOp.MAX, group=group)
        norm = pair[0] if pair[1] == 0 else torch.full_like(pair[0], math.nan)
    if norm > max_norm or norm.isnan():
        for grad in grads:
            grad.mul_((max_norm / (norm + 1e-6)).to(grad.device))
    return norm
