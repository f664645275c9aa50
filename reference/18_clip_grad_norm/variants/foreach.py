"""torch's foreach functions, and a functional collective; where gradients are small they are multiplied by 1."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol


@torch.no_grad()
def clip_grad_norm_sharded_(parameters, max_norm, norm_type=2.0, group=None):
    group = dist.group.WORLD if group is None else group
    grads = [p.grad for p in parameters if p.grad is not None and p.grad.numel() > 0]
    device = grads[0].device if grads else torch.device("cuda" if "nccl" in dist.get_backend_config(group) else "cpu")
    norms = torch._foreach_norm([grad.to(torch.float64) for grad in grads], norm_type) if grads else []
    own = torch.linalg.vector_norm(
        torch.stack([*norms, torch.zeros((), dtype=torch.float64, device=device)]), norm_type
    )
    every = funcol.wait_tensor(funcol.all_gather_tensor(own.reshape(1), 0, group))
    norm = torch.linalg.vector_norm(every, norm_type)
    factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    if grads:
        torch._foreach_mul_(grads, factor)
    return norm
