"""Values that both sides make: seeded by place in a rank and again in the judge; and copies of what a rank has.

A seed is a rank's own secret (`rank.secret`, which that rank and the judge know) or the one that all ranks of a case
are told (`rank.seed`).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from grader.kit import gpus


def seed_for(seed: int, *place: int | str) -> int:
    """A seed for one place, such as `(rank.secret, "batch", step)`: equal for equal arguments, else independent."""
    digest = hashlib.blake2b(repr((seed, *place)).encode(), digest_size=8)
    return int.from_bytes(digest.digest()) >> 1


def generator(seed: int, *place: int | str) -> torch.Generator:
    """A generator for one place, on the CPU."""
    return torch.Generator("cpu").manual_seed(seed_for(seed, *place))


def random_for(seed: int, *place: int | str) -> random.Random:
    """Python's generator for one place."""
    return random.Random(seed_for(seed, *place))


def seed_generators(seed: int) -> None:
    """Seed Python's and torch's own generators, as `random.seed` and `torch.manual_seed` would. Where there is no GPU
    that is the CPU's alone: `torch.manual_seed` would note for each kind of device that is not there what to do once it
    is, with all lines of its callers' sources, which takes 5 ms in a fresh fork."""
    random.seed(seed)
    if gpus.possible():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def normal(
    shape: Sequence[int], seed: int, *place: int | str, dtype: torch.dtype = torch.float64, scale: float = 1.0
) -> torch.Tensor:
    """Values of a normal distribution of mean 0 and standard deviation `scale`, for one place; on the CPU, also where
    student code that calls a constructor has another default device."""
    return scale * torch.randn(tuple(shape), dtype=dtype, device="cpu", generator=generator(seed, *place))


def token(seed: int, *place: int | str) -> int:
    """A whole number below 2^20 for one place, exact in float32."""
    return seed_for(seed, *place) % 2**20


FUNCTORCH = ("is_functorch_wrapped_tensor", "get_unwrapped")
"""What `unwrapped` asks of torch's private module of functorch."""


def copies(tensors: Mapping[str, torch.Tensor] | Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Named tensors as they are now, on the CPU, without gradients. Takes `model.named_parameters()` as well."""
    return {name: unwrapped(tensor).detach().cpu().clone() for name, tensor in dict(tensors).items()}


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor inside those that `torch.func` wraps around it: they have no storage, and end with the function. Where
    torch no longer tells (its names for that are its own), the tensor as it is."""
    functorch: Any = getattr(torch._C, "_functorch", None)
    if not all(hasattr(functorch, name) for name in FUNCTORCH):
        return tensor
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copies of all parameters and buffers, under the keys of its state dict."""
    return copies(model.state_dict())


def number(value: Any) -> float | None:
    """A float, from a number or a tensor with one element; else None."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def kind_of(value: Any) -> str:
    """The name of its type, with its module where that is not Python's own, for NumPy has a bool, too. NumPy's float is
    called a float, for it is one."""
    kind = type(value)
    if isinstance(value, float) or kind.__module__ == "builtins":
        return "float" if isinstance(value, float) else kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"


def short(value: Any, most: int = 40) -> str:
    """What a value looks like, at most so many characters."""
    try:
        return repr(value)[:most]
    except Exception:  # a student's __repr__ may raise
        return f"a {type(value).__name__}"
