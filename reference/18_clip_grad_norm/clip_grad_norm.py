"""Clip gradients by a norm over shards that lie on several ranks.

The norm of a vector that is cut into pieces needs one number of each piece. With g = (g_1, …, g_N), g_r on rank r,

    L2          ‖g‖₂ = √(Σ_r ‖g_r‖₂²)
    infinity    ‖g‖∞ = max_r ‖g_r‖∞

and for any p > 0 in between (Σ_r ‖g_r‖ₚᵖ)^(1/p). So each rank computes one number over all its own gradients, the ranks
tell each other these numbers, and everybody takes the norm of them: one collective of N · 8 bytes, whatever the model's
size. Then every rank scales its own gradients by min(1, max_norm / (‖g‖ + ε)), the same factor on all ranks, so that
the direction of the whole gradient stays.

Naive would be torch.nn.utils.clip_grad_norm_ on every rank: each would clip by the norm of its own shard, by another
factor, and the gradient would point elsewhere.

Sources: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks" (ICML 2013), section
3.2, algorithm 1; the PyTorch page "torch.nn.utils.clip_grad_norm_".
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist

EPSILON = 1e-6


@torch.no_grad()
def clip_grad_norm_sharded_(
    parameters: Iterable[torch.Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Scale the gradients of all ranks' shards in place so that their norm together is at most max_norm, and return the
    norm before that, float64 and without dimensions, on every rank. Collective: every rank of the group calls it.
    """
    if not norm_type > 0:
        raise ValueError(f"norm_type must be positive (got {norm_type})")
    gradients = [p.grad for p in parameters if p.grad is not None]  # once: a generator yields nothing a second time

    own = norm_of([norm_of(g, norm_type) for g in gradients], norm_type)  # ‖g_r‖ₚ, 0 where a rank has nothing
    norm = norm_of(gather(own, group), norm_type)  # ‖g‖ₚ

    # The same factor on all ranks. Where the norm is NaN it is NaN, as in torch's own function.
    factor = max_norm / (norm + EPSILON)
    if not factor >= 1:
        for g in gradients:
            g.mul_(factor.to(g.device))
    return norm


def norm_of(numbers: torch.Tensor | list[torch.Tensor], p: float) -> torch.Tensor:
    """The p-norm of all numbers as float64, 0 if there are none. A norm of norms is the norm of all of it.

    Everything is float64 from the start: squares of float16 overflow, and float32 has lost digits that a float64
    gradient beside it still has. And so ranks need not agree about a dtype before they talk to one another.
    """
    if isinstance(numbers, list):
        numbers = torch.stack(numbers) if numbers else torch.zeros(0, dtype=torch.float64)
    if not numbers.numel():  # torch has no largest one of no numbers
        return torch.zeros((), dtype=torch.float64, device=numbers.device)
    return torch.linalg.vector_norm(numbers, p, dtype=torch.float64)


def gather(own: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
    """All ranks' numbers, on the device that the group talks by.

    To gather them, N numbers, is as cheap as to reduce one: both cost a latency. And gloo's maximum loses a NaN, unless
    it comes from the first rank.
    """
    device = "cuda" if "nccl" in dist.get_backend_config(group) else "cpu"  # a rank that has nothing knows no device
    numbers = [torch.zeros_like(own, device=device) for _ in range(dist.get_world_size(group))]
    dist.all_gather(numbers, own.to(device), group=group)
    return torch.stack(numbers)
