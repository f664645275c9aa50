"""One long vector of all gradients; its powers are summed by way of an all-to-all, and its largest ones likewise."""

import torch
import torch.distributed as dist


@torch.no_grad()
def clip_grad_norm_sharded_(parameters, max_norm, norm_type=2.0, group=None):
    grads = [p.grad for p in parameters if p.grad is not None]
    device = torch.device("cuda") if "nccl" in dist.get_backend_config(group) else torch.device("cpu")
    nothing = torch.zeros(1, dtype=torch.float64, device=device)
    flat = torch.cat([nothing, *(grad.double().flatten() for grad in grads)]).abs()
    infinite = norm_type == float("inf")
    own = flat.amax() if infinite else (flat**norm_type).sum()
    sent = own.repeat(dist.get_world_size(group))
    every = torch.empty_like(sent)
    dist.all_to_all_single(every, sent, group=group)
    norm = every.amax() if infinite else every.sum() ** (1.0 / norm_type)
    if norm > max_norm or torch.isnan(norm):
        for grad in grads:
            grad.copy_(grad * (max_norm / (norm + 1e-8)))
    return norm
