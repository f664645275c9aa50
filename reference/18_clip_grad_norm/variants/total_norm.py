"""torch's own two halves of clip_grad_norm_, with a collective in between."""

import torch
import torch.distributed as dist
from torch.nn.utils import clip_grads_with_norm_, get_total_norm


def clip_grad_norm_sharded_(parameters, max_norm, norm_type=2.0, group=None):
    parameters = list(parameters)
    wide = [p.grad.double() for p in parameters if p.grad is not None and p.grad.numel()]
    device = "cuda" if "nccl" in dist.get_backend_config(group) else "cpu"
    own = get_total_norm(wide, norm_type).to(device, torch.float64).reshape(1)
    every = torch.empty(dist.get_world_size(group), dtype=torch.float64, device=device)
    dist.all_gather_into_tensor(every, own, group=group)
    norm = get_total_norm(list(every), norm_type)
    clip_grads_with_norm_(parameters, max_norm, norm)
    return norm
