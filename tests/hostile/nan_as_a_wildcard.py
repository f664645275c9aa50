"""Returns NaN everywhere, which differs from everything and is larger than no tolerance."""

import torch

TELLS = "nan"


def total(value):
    return torch.full_like(value, float("nan"))
